# SPDX-License-Identifier: GPL-2.0-only OR MIT
# ns-2 on a scripted transfer: one connection over one link that loses packets by their number.
#
#   ns transfer.tcl TRACE SENDER SINK RATE_BPS DELAY_S PACKETS UNTIL_S STEP_S STEP_DELAY_S LOST ...
#     TRACE         file for the packets that enter the link, and for the window
#     SENDER, SINK  agents of both ends
#     PACKETS       size of the transfer
#     STEP_S        when the delay towards the receiver becomes STEP_DELAY_S
#     LOST          packets that are lost on their way to the receiver, in the order in which they enter the link, from 0

if {$argc < 9} {
    puts stderr "usage: ns transfer.tcl TRACE SENDER SINK RATE_BPS DELAY_S PACKETS UNTIL_S STEP_S STEP_DELAY_S LOST ..."
    exit 2
}
set lost [lassign $argv path agent receiver rate delay packets until step stepped]

set ns [new Simulator]
set server [$ns node]
set client [$ns node]
$ns duplex-link $server $client $rate ${delay}s DropTail
$ns queue-limit $server $client 100000
$ns queue-limit $client $server 100000
if {[llength $lost]} {
    set errors [new ErrorModel/List]
    $errors droplist $lost
    $errors drop-target [new Agent/Null]
    $ns link-lossmodel $errors $server $client
}
set trace [open $path w]
$ns trace-queue $server $client $trace
$ns trace-queue $client $server $trace
$ns at $step "[[$ns link $server $client] link] set delay_ $stepped"

# What a study sets beside the preset: the size of a packet, and windows that limit nothing. The rest is ns-2's default.
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 100000
Agent/TCP set maxcwnd_ 100000
set sender [new Agent/$agent]
set sink [new Agent/$receiver]
$ns attach-agent $server $sender
$ns attach-agent $client $sink
$ns connect $sender $sink
$sender attach $trace
$sender tracevar cwnd_
set transfer [new Application/FTP]
$transfer attach-agent $sender
$ns at 0 "$transfer produce $packets"
proc finish {} {
    global ns trace
    $ns flush-trace
    close $trace
    exit 0
}
$ns at $until finish
$ns run
