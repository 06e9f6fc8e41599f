# SPDX-License-Identifier: GPL-2.0-only OR MIT
# ns-2 on the benchmark's path: server - gateway - terminal - client, one download, Linux TCP agent.
#
#   ns ns2.tcl CC BYTES LOSS BUFFER
#     CC      congestion control of Agent/TCP/Linux: cubic, reno, hybla ... (ns-2 has no bbr)
#     BYTES   payload of the download
#     LOSS    Bernoulli loss of data packets entering the satellite link, a share: 0, 0.001, 0.01
#     BUFFER  bytes that may be in flight (the receiver's window)
#
# Prints one line of JSON: segments acknowledged, sent and sent again, seconds simulated, seconds of wall clock.
# Units: bit/s, seconds, bytes. A packet is 1500 bytes of IP: 1448 of payload, 40 of headers, 12 of timestamps.

if {$argc != 4} {
    puts stderr "usage: ns ns2.tcl CC BYTES LOSS BUFFER"
    exit 2
}
lassign $argv algorithm bytes loss buffer
set payload 1448
set window [expr {int($buffer / $payload)}]
set segments [expr {int(ceil($bytes / double($payload)))}]

# Without this, and before the simulator exists, every packet carries (and clears) the headers of all protocols.
remove-all-packet-headers
add-packet-header IP TCP Flags
set ns [new Simulator]
# The fastest of its schedulers on this path.
$ns use-scheduler Splay

set server [$ns node]
set gateway [$ns node]
set terminal [$ns node]
set client [$ns node]

# Drop-tail in packets: 36 MB are 24,000 packets of 1500 bytes. One way 5 + 294 + 1 = 300 ms.
$ns duplex-link $server $gateway 1Gb 5ms DropTail
$ns duplex-link $gateway $terminal 144Mb 294ms DropTail
$ns duplex-link $terminal $client 1Gb 1ms DropTail
$ns queue-limit $server $gateway 100000
$ns queue-limit $gateway $terminal 24000
$ns queue-limit $terminal $client 100000
$ns queue-limit $client $terminal 100000
$ns queue-limit $terminal $gateway 100000
$ns queue-limit $gateway $server 100000

if {$loss > 0} {
    set lossy [new ErrorModel]
    $lossy unit pkt
    $lossy set rate_ $loss
    set draw [new RandomVariable/Uniform]
    $draw set min_ 0.0
    $draw set max_ 1.0
    $lossy ranvar $draw
    $lossy drop-target [new Agent/Null]
    $ns link-lossmodel $lossy $gateway $terminal
}

set sender [new Agent/TCP/Linux]
$sender set timestamps_ true
$sender set packetSize_ $payload
$sender set ts_option_size_ 12
$sender set window_ $window
$sender set maxcwnd_ $window
$sender set windowInit_ 10
$sender set minrto_ 0.2
$ns attach-agent $server $sender

set receiver [new Agent/TCPSink/Sack1/DelAck]
$receiver set ts_echo_rfc1323_ true
$ns attach-agent $client $receiver
$ns connect $sender $receiver
$ns at 0 "$sender select_ca $algorithm"

# ns-2's TCP moves packets: the download is over when the last one has been acknowledged.
proc finish {} {
    global ns sender segments started
    set wall [expr {([clock microseconds] - $started) / 1e6}]
    set delivered [expr {int([$sender set ack_]) + 1}]
    set sent [$sender set ndatapack_]
    set again [$sender set nrexmitpack_]
    puts [format {{"segments": %d, "sent": %d, "retransmitted": %d, "simulated_s": %.3f, "wall_s": %.3f}} \
        $delivered $sent $again [$ns now] $wall]
    exit [expr {$delivered < $segments}]
}
Agent/TCP instproc done {} { finish }

set source [new Application/FTP]
$source attach-agent $sender
$ns at 0 "$source produce $segments"
$ns at 20000 "finish"
set started [clock microseconds]
$ns run
