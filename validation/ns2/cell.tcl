# SPDX-License-Identifier: GPL-2.0-only OR MIT
# ns-2 on a cell of the comparison: web users, probes, a call and file transfers over one long link.
#
#   ns cell.tcl CC QUEUE_PACKETS RATE_BPS WEB WEB_BACK UNTIL FROM CALL
#     CC             congestion control of the four high-speed flows, of Agent/TCP/Linux; `reno` is Agent/TCP/Newreno
#     QUEUE_PACKETS  drop-tail queue of the long link, forward, which counts packets whatever their size
#     RATE_BPS     rate of the long link
#     WEB          new web connections per second, forward; WEB_BACK: in reverse
#     UNTIL        end, s
#     FROM         end of the warm-up, s
#     CALL         file for the trace of the call's packets
#
# Prints a line per transaction of the probes (`probe BYTES OPENED_S DURATION_MS`), one per high-speed flow and file transfer
# (`flow NAME BYTES`, payload acknowledged after the warm-up), and one of the link (`link BYTES PACKETS DROPPED`, after the warm-up).
# Units: bit/s, bytes, seconds.
#
# What the publication says is set: packets of 1500 bytes, windows, rates, and TCP-Linux with the options of its own example. The rest is
# ns-2's default: a first window of two, plain sinks, FTP and HFTP of NewReno without SACK, web users and probes of full TCP (Reno) with
# segments of 536 bytes and windows of 20.

if {$argc != 8} {
    puts stderr "usage: ns cell.tcl CC QUEUE_PACKETS RATE_BPS WEB WEB_BACK UNTIL FROM CALL"
    exit 2
}
lassign $argv algorithm queue rate web webback until from call

remove-all-packet-headers
add-packet-header IP TCP RTP Flags
set ns [new Simulator]
$ns use-scheduler Splay
ns-random 1

foreach name {senders left right receivers caller callee users usersback probes} { set node($name) [$ns node] }
$ns duplex-link $node(left) $node(right) $rate 500ms DropTail
foreach {side access} {senders left receivers right caller left callee right} {
    $ns duplex-link $node($side) $node($access) 1Gb 10ms DropTail
    $ns queue-limit $node($side) $node($access) 100000
    $ns queue-limit $node($access) $node($side) 100000
}
foreach {side access} {users right usersback left probes right} {
    $ns duplex-link $node($side) $node($access) 1Gb 20ms DropTail
    $ns queue-limit $node($side) $node($access) 100000
    $ns queue-limit $node($access) $node($side) 100000
}
foreach {a b packets} [list left right $queue right left [expr {$rate / 8 / 1500}]] {
    $ns queue-limit $node($a) $node($b) $packets
    set lossy [new ErrorModel]
    $lossy unit pkt
    $lossy set rate_ 1e-5
    $lossy ranvar [new RandomVariable/Uniform]
    $lossy drop-target [new Agent/Null]
    $ns link-lossmodel $lossy $node($a) $node($b)
}
set monitor [$ns monitor-queue $node(left) $node(right) ""]

# Web users, with the model's own distributions.
proc web {servers users rate} {
    global ns until
    set arrivals [new RandomVariable/PackMimeHTTPFlowArrive $rate]
    set requests [new RandomVariable/PackMimeHTTPFileSize $rate 0]
    set responses [new RandomVariable/PackMimeHTTPFileSize $rate 1]
    set delays [new RandomVariable/PackMimeHTTPServerDelay 0.63 305]
    foreach one [list $arrivals $requests $responses $delays] { $one use-rng [new RNG] }
    set source [new PackMimeHTTP]
    $source set-client $users
    $source set-server $servers
    $source set-rate $rate
    $source set-req_size $requests
    $source set-rsp_size $responses
    $source set-flow_arrive $arrivals
    $source set-server_delay $delays
    $ns at 0 "$source start"
    $ns at $until "$source stop"
}
web $node(left) $node(users) $web
web $node(right) $node(usersback) $webback

# Probes: a connection each, 300 bytes of request.
proc probe {bytes} {
    global ns node
    foreach {end place} {asks probes answers left} {
        set $end [new Agent/TCP/FullTcp]
        $ns attach-agent $node($place) [set $end]
        set app_$end [new Application/TcpApp [set $end]]
    }
    $ns connect $asks $answers
    $answers listen
    $app_asks connect $app_answers
    $app_asks send 300 "$app_answers send $bytes \"answered $bytes [$ns now]\""
}
proc answered {bytes opened} {
    global ns
    puts "probe $bytes $opened [format %.3f [expr {1000 * ([$ns now] - $opened)}]]"
}
set place 0
for {set at 10.0} {$at < $until} {set at [expr {$at + 0.1}]} {
    $ns at $at "probe [expr {1024 << ($place % 8)}]"
    incr place
}

# A call: talk spurts of 0.4 s and silences of 0.6 s. Only its packets take these two links, which are traced.
set trace [open $call w]
$ns trace-queue $node(caller) $node(left) $trace
$ns trace-queue $node(right) $node(callee) $trace
set speech [new Agent/UDP]
$speech set packetSize_ 218
$ns attach-agent $node(caller) $speech
set ear [new Agent/Null]
$ns attach-agent $node(callee) $ear
$ns connect $speech $ear
set speaker [new Application/Traffic/Exponential]
$speaker set packetSize_ 218
$speaker set burst_time_ 0.4
$speaker set idle_time_ 0.6
$speaker set rate_ 87200
$speaker attach-agent $speech
$ns at 10 "$speaker start"
$ns at $until "$speaker stop"

# File transfers and high-speed flows: NewReno, or Linux's TCP by one of its algorithms.
proc transfer {name algorithm window at} {
    global ns node sender
    if {$algorithm eq "reno"} {
        set sender($name) [new Agent/TCP/Newreno]
        $sender($name) set packetSize_ 1460
        set sink [new Agent/TCPSink]
    } else {
        set sender($name) [new Agent/TCP/Linux]
        $sender($name) set timestamps_ true
        $sender($name) set packetSize_ 1448
        $sender($name) set ts_option_size_ 12
        $ns at 0 "$sender($name) select_ca $algorithm"
        set sink [new Agent/TCPSink/Sack1]
        $sink set ts_echo_rfc1323_ true
    }
    $sender($name) set window_ $window
    $sender($name) set maxcwnd_ $window
    $ns attach-agent $node(senders) $sender($name)
    $ns attach-agent $node(receivers) $sink
    $ns connect $sender($name) $sink
    set source [new Application/FTP]
    $source attach-agent $sender($name)
    $ns at $at "$source start"
}
transfer ftp reno 64 10
transfer hftp reno 100000 10
foreach number {1 2 3 4} { transfer fast.$number $algorithm 10000 [expr {10 + 2 * $number}] }

proc snapshot {} {
    global monitor sender before
    foreach one {bdepartures_ parrivals_ pdrops_} { set before($one) [$monitor set $one] }
    foreach name [array names sender] { set before($name) [$sender($name) set ack_] }
}
proc finish {} {
    global ns monitor sender before trace
    set found [list]
    foreach one {bdepartures_ parrivals_ pdrops_} { lappend found [expr {wide([$monitor set $one] - $before($one))}] }
    puts "link [join $found]"
    foreach name [lsort [array names sender]] {
        set payload [$sender($name) set packetSize_]
        puts "flow $name [expr {([$sender($name) set ack_] - $before($name)) * $payload}]"
    }
    $ns flush-trace
    close $trace
    exit 0
}
$ns at $from snapshot
$ns at $until finish
$ns run
