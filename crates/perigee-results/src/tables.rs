//! The tables: each column with its type, unit and meaning, declared once.

use crate::states::States;
use crate::table::{table, Cell, Column, Name, Table, Values};

table!(Flows, FlowRow, "flows", "A row per flow per run." {
    study: Name, "", "Name of the study.";
    engine: Name, "", "What carried it out: `sim`, `emu` or `live`; or where it was measured: `capture`, `campaign`.";
    run: u32, "", "Number of the run in the study's plan, from 0.";
    round: u32, "", "Round the run belongs to, from 0; every point of `vary` runs once in each.";
    seed: u64, "", "Seed of the run; made of the study's seed and the round only, so all points of a round meet the same random draws.";
    point: Name, "", "What varied, and its values here: a JSON object.";
    flow: Name, "", "Name of the flow.";
    leg: Option<u32>, "",
        "Number of the leg, from 1 in the direction of the data, of a flow that proxies split; empty for the flow \
         itself, from end to end.";
    kind: Name, "", "Kind of the flow: `bulk`, `request`, `transactions`, `web`, `video`, `udp`, `voice`, `call` or `ping`.";
    from_node: Name, "", "Node that sends the data.";
    to_node: Name, "", "Node that receives the data.";
    cc: Name, "", "Congestion control; empty for a flow without connections.";
    cc_params: Name, "", "Parameters of the congestion control that the study set: a JSON object.";
    bytes: u64, "B", "Payload that arrived and was acknowledged.";
    received_bytes: u64, "B", "Payload that was delivered in order to the receiving application.";
    start_s: f64, "s", "When the flow began, in the run's time.";
    duration_s: f64, "s",
        "From the beginning to the last byte's arrival; where it did not complete: to its failure, or to the end of \
         the run.";
    completed: bool, "", "Whether everything asked for was carried: `outcome` is `completed`.";
    outcome: Name, "",
        "How the flow ended: `completed`; `time_limit`: the run's time was up before; `unconnected`: its own \
         duration was over before both ends were connected; `stalled`: neither end had anything left to send that \
         the other waits for; `refused`, `reset`, `timed_out` or `unreachable`: the connection failed so; \
         `stopped`: it ended in another way, or its end was not recorded.";
    handshake_ms: Option<f64>, "ms",
        "From the first SYN to the end of the handshake at the node that opened the connection; of QUIC from its first \
         Initial packet, of a browser's first connection. Empty without a connection, and of a population over TCP, \
         whose connections are in `responses`.";
    goodput_mbps: Option<f64>, "Mbit/s",
        "Received payload over the duration; empty for a flow that took no time, whose goodput has no bound.";
    goodput_p10_mbps: Option<f64>, "Mbit/s",
        "10th percentile of the payload that arrives per `measure.goodput_bin`, each byte once, in order or not; \
         empty below one whole bin.";
    goodput_p50_mbps: Option<f64>, "Mbit/s", "Median of the payload that arrives per `measure.goodput_bin`.";
    goodput_p90_mbps: Option<f64>, "Mbit/s", "90th percentile of the payload that arrives per `measure.goodput_bin`.";
    steady_goodput_mbps: Option<f64>, "Mbit/s",
        "Goodput in the steady phase: payload that arrived in it, each byte once, over its length; empty where the \
         flow never got there.";
    startup_goodput_mbps: Option<f64>, "Mbit/s",
        "Goodput in the startup phase; empty where the flow never left it, or left it at once.";
    rtt_min_ms: Option<f64>, "ms", "Smallest measured round trip; empty without samples.";
    rtt_mean_ms: Option<f64>, "ms", "Mean of the measured round trips.";
    rtt_p50_ms: Option<f64>, "ms", "Median of the measured round trips.";
    rtt_p95_ms: Option<f64>, "ms", "95th percentile of the measured round trips.";
    rtt_p99_ms: Option<f64>, "ms", "99th percentile of the measured round trips.";
    steady_rtt_mean_ms: Option<f64>, "ms", "Mean round trip in the steady phase.";
    startup_rtt_mean_ms: Option<f64>, "ms", "Mean round trip in the startup phase.";
    sent_packets: Option<u64>, "packets",
        "Data packets sent, retransmissions included; of QUIC datagrams of the end that sends the data. Empty where \
         nobody counted them.";
    retransmitted_packets: Option<u64>, "packets",
        "Data packets sent again; empty where nobody counted them, and of QUIC, which repeats data in other packets.";
    rto_count: Option<u32>, "",
        "Retransmission timeouts of the end that sends the data, those of its handshake included; where the \
         connection was never established: of the SYN. Of QUIC its probe timeouts. Empty where nobody counted them.";
    busy_s: Option<f64>, "s",
        "Since the handshake, how long the sender had data that were unsent or unacknowledged (`tcpi_busy_time` of \
         Linux), whatever limited it; the next two are parts of it. Empty where nobody measured it: without TCP, \
         of a population, of real hosts, in captures, and of a flow that proxies split, whose legs have them.";
    rwnd_limited_s: Option<f64>, "s",
        "How long the receiver's window kept back data that the sender had (`tcpi_rwnd_limited`); of QUIC its flow \
         control, of a stream or of the connection.";
    sndbuf_limited_s: Option<f64>, "s",
        "How long the send buffer kept back data that the application had, while all that it held was sent and the \
         congestion window had space (`tcpi_sndbuf_limited`); of a leg that begins at a proxy, its `buffer` too. \
         In emulation with what samples of the socket, 10 ms apart, add where the kernel does not count.";
    app_limited_s: Option<f64>, "s",
        "How long the sending application had nothing to send though the congestion window had space, with data in \
         flight or without; the end of a transfer, when all is sent, counts. In emulation from these samples.";
    startup_s: Option<f64>, "s", "Length of the startup phase; empty where the flow never left it.";
    startup_sent_packets: Option<u64>, "packets", "Data packets sent in the startup phase.";
    startup_retransmitted_packets: Option<u64>, "packets", "Data packets sent again in the startup phase.";
    steady_s: Option<f64>, "s", "Length of the steady phase; empty where the flow never got there.";
    steady_sent_packets: Option<u64>, "packets", "Data packets sent in the steady phase.";
    steady_retransmitted_packets: Option<u64>, "packets", "Data packets sent again in the steady phase.";
    capture_frames: Option<u64>, "",
        "Frames with data that a capture at the sender shows: with `segmentation_offload` those that leave together are \
         one, of up to 64 kB. This column and the six after it are empty without `measure.capture`, and of a flow \
         that proxies split; in simulations only.";
    capture_repeated_frames: Option<u64>, "", "Those of them that begin at the same byte as an earlier one.";
    capture_steady_frames: Option<u64>, "", "Frames that begin from byte `measure.capture.from` on, and before `upto`.";
    capture_steady_repeated_frames: Option<u64>, "", "Those of them that begin at the same byte as an earlier one.";
    capture_rtt_mean_ms: Option<f64>, "ms",
        "Mean time from a frame to the acknowledgement of its end, of several with this end from the first: with the \
         wait for a retransmission, and without those shorter than `measure.capture.least`.";
    capture_startup_rtt_mean_ms: Option<f64>, "ms",
        "The mean of the round trips that are measured within `measure.capture.startup`, as `capture_rtt_mean_ms`.";
    capture_steady_rtt_mean_ms: Option<f64>, "ms",
        "The mean of the round trips that are measured after `measure.capture.startup`, as `capture_rtt_mean_ms`.";
    capture_goodput_mbps: Option<f64>, "Mbit/s",
        "Throughput that a capture at the receiver shows: bytes over the whole seconds from the first packet, of the \
         handshake, to the end of the flow, without what is left of a second. This and the other five of the receiver's \
         capture are empty without `measure.capture`, and where there is no whole second.";
    capture_startup_goodput_mbps: Option<f64>, "Mbit/s",
        "Throughput of the first `measure.capture.first` bytes in the receiver's capture, until all of them have arrived.";
    capture_steady_goodput_mbps: Option<f64>, "Mbit/s",
        "Throughput of the bytes from `measure.capture.from` to `upto` in the receiver's capture: from the arrival of all \
         before the former to that of all before the latter.";
    capture_goodput_p10_mbps: Option<f64>, "Mbit/s",
        "10th percentile of the payload that arrives per second of the run's clock, without the first two seconds of \
         the flow, the one in which it ends and the one before.";
    capture_goodput_p50_mbps: Option<f64>, "Mbit/s",
        "Median of the payload that arrives per second, as `capture_goodput_p10_mbps`.";
    capture_goodput_p90_mbps: Option<f64>, "Mbit/s",
        "90th percentile of the payload that arrives per second, as `capture_goodput_p10_mbps`.";
    lost_packets: Option<u64>, "packets",
        "UDP, voice, calls and ping: packets (or answers) that never came; QUIC: packets that the end that sends the \
         data declared lost (RFC 9002, section 6.1); empty for TCP.";
    spurious_losses: Option<u64>, "",
        "QUIC: times that all that was declared lost had arrived after all. This column and the six after it are empty \
         without QUIC.";
    transport: Name, "", "`quic`; empty otherwise.";
    handshake: Name, "",
        "How the connection was opened: `1-rtt`; `0-rtt`, where the server took the data of the first flight; \
         `0-rtt-rejected`, where they were sent again; after `retry, ` where the server validated the address first. \
         Empty where the handshake did not end.";
    streams: Option<u64>, "", "Streams that were opened, of either end.";
    limited_by: Name, "",
        "What kept the end that sends the data from sending for the longest time: `handshake`, `congestion_window`, \
         `pacing`, `flow_control`, or `application`, which had no more to send. Empty of pages, as are the times of \
         limits above: several connections send at a time.";
    passed_proxies: Option<u32>, "", "Proxies on the way of the data, which pass QUIC by.";
    cause: Name, "",
        "What went wrong with the connection: `version`, the server has none of the client's versions; `mtu`, \
         datagrams larger than a link's `mtu` were lost; `no_answer`, nothing came back; `handshake`, it timed out \
         before both ends had completed the handshake, as after early data; `idle`, it timed out later; \
         `ecn_bleached`, the path clears the field; `0-rtt-rejected`; or the stack's words for an error. Of several \
         the first in this order. Empty where nothing did.";
    delay_mean_ms: Option<f64>, "ms", "UDP, voice and calls: mean one-way delay; empty otherwise.";
    jitter_ms: Option<f64>, "ms",
        "UDP, voice and calls: mean difference of the delays of successive packets (RFC 3550, 6.4.1, without its \
         smoothing); empty otherwise.";
});

table!(Series, SeriesRow, "series",
    "A row per flow per `measure.series` interval: what happened in it, and the sender's state at its end." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    leg: Option<u32>, "", "Number of the leg, of a flow that proxies split; empty for the flow itself.";
    t_s: f64, "s", "End of the interval, in the run's time.";
    goodput_mbps: f64, "Mbit/s", "Payload that arrived at the receiver in the interval, each byte once, in order or not, over its length.";
    acked_bytes: u64, "B", "Payload acknowledged since the flow began.";
    sacked_bytes: Option<u64>, "B", "Payload above it that SACK reports, at the end of the interval; empty where nobody knows.";
    cwnd_packets: Option<u32>, "packets", "Congestion window; empty without a connection.";
    ssthresh_packets: Option<u32>, "packets", "Slow start threshold; empty while there is none.";
    srtt_ms: Option<f64>, "ms", "Smoothed round trip time; empty before the first sample.";
    rtt_mean_ms: Option<f64>, "ms", "Mean of the round trips measured in the interval; empty without one.";
    inflight_packets: Option<u32>, "packets", "Packets in flight as the sender counts them; empty where that is not known.";
    sent_packets: Option<u64>, "packets", "Data packets sent in the interval, retransmissions included; empty where nobody counted them.";
    retransmitted_packets: Option<u64>, "packets", "Data packets sent again in the interval; empty where nobody counted them.";
    pacing_mbps: Option<f64>, "Mbit/s", "Pacing rate; empty where the sender does not pace.";
});

table!(Links, LinkRow, "links", "A row per directed link per `measure.series` interval, counted by the link's own arrivals." {
    run: u32, "", "Number of the run.";
    link: Name, "", "Name of the link and its direction: `satellite.down`.";
    t_s: f64, "s", "End of the interval, in the run's time.";
    offered_packets: u64, "packets", "Packets that arrived in the interval.";
    offered_bytes: u64, "B", "Bytes that arrived in the interval (IP packets).";
    delivered_packets: u64, "packets",
        "Of the packets that arrived in the interval, those that are neither dropped nor lost; of a queue that \
         decides on departure, such as CoDel, those decided on in the interval.";
    delivered_bytes: u64, "B", "The bytes of these packets.";
    dropped_packets: u64, "packets", "Of the packets that arrived in the interval, those that are dropped or lost.";
    drop_reason: Name, "", "Why most of them were: `queue_full`, `aqm` or `loss`; empty where none was.";
    dropped_queue_full_packets: u64, "packets", "Of these, dropped by a full queue.";
    dropped_aqm_packets: u64, "packets", "Of these, dropped by the active queue management.";
    lost_packets: u64, "packets", "Of these, lost on the air, with the queue of a route that changed, or dropped for their ECN field.";
    queue_bytes: u64, "B",
        "Backlog at the end of the interval. A packet counts whole until its last bit is sent, so a TDMA terminal, \
         whose limit is of unsent bytes, may have almost a packet more.";
    rate_mbps: f64, "Mbit/s", "Service rate, mean over the interval.";
});

table!(Proxies, ProxyRow, "proxies", "A row per proxy per `measure.series` interval: its state at the interval's end." {
    run: u32, "", "Number of the run.";
    proxy: Name, "", "Name of the proxy.";
    t_s: f64, "s", "End of the interval, in the run's time.";
    connections: u32, "", "Connections that it splits and that have not closed.";
    unread_bytes: u64, "B", "Payload in the receive buffers of its sockets, in order, that it has not read.";
    held_bytes: u64, "B", "Payload that it has read and the next leg has not acknowledged: `memory` bounds it.";
    held_max_bytes: u64, "B", "Largest such amount so far.";
});

table!(Rtt, RttRow, "rtt", "The distribution of the round trips measured by each flow's sender: a row per non-empty bin." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    leg: Option<u32>, "", "Number of the leg, of a flow that proxies split; empty for the flow itself.";
    phase: Name, "", "`all`, `startup` or `steady`; `all` holds every sample, those between the phases too.";
    rtt_ms: f64, "ms",
        "Lower edge of the bin; bins are `measure.rtt_bin` wide; of a captured flow 1 ms, or less where its shortest \
         round trip is below 20 ms.";
    count: u64, "", "Samples in the bin.";
});

table!(Milestones, MilestoneRow, "milestones", "When each flow had delivered so much: a row per reached size of `measure.milestones`." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    leg: Option<u32>, "", "Number of the leg, of a flow that proxies split; empty for the flow itself.";
    bytes: u64, "B", "The size: payload delivered to the receiving application.";
    t_s: f64, "s", "Since the flow began (its handshake included).";
});

table!(Exchanges, ExchangeRow, "exchanges", "A row per request and response, or per ping; of a `web` flow a sample of 1000." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    number: u32, "", "Number of the exchange in its flow, from 0.";
    start_s: f64, "s", "When the request was sent, in the run's time.";
    request_bytes: u64, "B", "Size of the request.";
    response_bytes: u64, "B", "Size of the response.";
    duration_ms: Option<f64>, "ms", "From sending the request to the arrival of the response's last byte; empty where it never came.";
});

table!(Responses, ResponseRow, "responses",
    "How long the transactions of a population took, from the opening of a connection to the last byte of the \
     response: a row per flow and class of response sizes that occurred, without the flow's `warmup`." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    least_bytes: u64, "B", "Smallest response of the class.";
    most_bytes: u64, "B", "Largest response of the class: the same for `transactions`, below the next power of two for `web`.";
    transactions: u64, "", "Connections that were opened.";
    completed: u64, "", "Of these, those whose response arrived whole before the flow ended.";
    failed: u64, "", "Of these, those that were refused, reset or timed out before that.";
    mean_ms: Option<f64>, "ms", "Mean duration of those that completed; empty without one.";
    p50_ms: Option<f64>, "ms", "Median of their durations.";
    p95_ms: Option<f64>, "ms", "95th percentile of their durations.";
    p99_ms: Option<f64>, "ms", "99th percentile of their durations.";
    max_ms: Option<f64>, "ms", "Longest of their durations.";
    slowest_tenth_ms: Option<f64>, "ms", "Mean of the slowest tenth of their durations.";
    handshake_mean_ms: Option<f64>, "ms", "Mean time that the handshake took of that.";
});

table!(Voice, VoiceRow, "voice", "A row per `voice` flow: what its listener heard, without the flow's `warmup`." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    sent_packets: u64, "packets", "Packets sent.";
    lost_packets: u64, "packets", "Packets that never came.";
    late_packets: u64, "packets", "Packets that came after the playout buffer should have played them.";
    unplayed_percent: Option<f64>, "%", "Share of the packets that were lost or late; empty where none was sent.";
    delay_mean_ms: Option<f64>, "ms", "Mean one-way delay of the network; empty where no packet came.";
    delay_max_ms: Option<f64>, "ms", "Largest one-way delay of the network.";
    jitter_mean_ms: Option<f64>, "ms", "Interarrival jitter of RFC 3550, 6.4.1: mean of the estimate over the arrivals; empty below two.";
    jitter_max_ms: Option<f64>, "ms", "Largest value of that estimate.";
    mouth_to_ear_ms: Option<f64>, "ms", "Mean delay from mouth to ear: packetization, network and playout buffer.";
    r_factor: Option<f64>, "", "Rating R of the E-model (ITU-T G.107), 0 to 93.21; empty where no packet came.";
    mos: Option<f64>, "", "Mean opinion score of that rating, 1 to 4.5.";
});

table!(Videos, VideoRow, "videos", "A row per `video` flow: what its viewer saw." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    segments: u64, "", "Segments that arrived whole.";
    startup_delay_s: Option<f64>, "s",
        "From the beginning of the flow to the first picture, the handshake included; empty where playback never \
         began.";
    stalls: u32, "", "Times that the buffer was empty and playback stopped.";
    stalled_s: f64, "s", "Length of the stalls together; the delay at the beginning is none.";
    stalled_percent: Option<f64>, "%", "Stalls over stalls and the video that arrived; empty where no segment did.";
    bitrate_mbps: Option<f64>, "Mbit/s", "Mean bit rate of the segments that arrived, by their length in time.";
    switches: u32, "", "Segments of another bit rate than the one before them.";
});

table!(Calls, CallRow, "calls", "A row per `call` flow: the frames that were seen in time, without the flow's `warmup`." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    frames: u64, "", "Frames sent.";
    whole_frames: u64, "", "Frames of which each packet arrived, in time or not.";
    on_time_frames: u64, "", "Frames of which each packet arrived within the `deadline`.";
    on_time_percent: Option<f64>, "%", "Share of the frames that arrived whole within the deadline; empty where none was sent.";
    delay_mean_ms: Option<f64>, "ms",
        "Mean time from sending a frame to the arrival of its last packet, of the frames that arrived whole; empty \
         without one.";
    delay_max_ms: Option<f64>, "ms", "Longest such time.";
    jitter_mean_ms: Option<f64>, "ms",
        "Interarrival jitter of RFC 3550, 6.4.1, of whole frames: mean of the estimate over their arrivals; empty \
         below two.";
    jitter_max_ms: Option<f64>, "ms", "Largest value of that estimate.";
    freezes: u32, "",
        "Times that the picture stood still: between two frames that were seen lay three intervals of frames or \
         more, and no less than one interval and 150 ms.";
    frozen_s: f64, "s", "Length of the freezes together, from one frame that was seen to the next.";
    frozen_percent: Option<f64>, "%", "Freezes over the length of the call; empty where no frame was sent.";
});

table!(Pages, PageRow, "pages", "A row per page that a `pages` flow began to load, without those in the flow's `warmup`." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    number: u32, "", "Number of the load in its flow, from 0.";
    start_s: f64, "s", "When the browser began, in the run's time.";
    objects: u32, "", "Objects of the page, the document among them.";
    arrived_objects: u32, "", "Objects that arrived whole before the flow ended.";
    bytes: u64, "B", "Payload of all its responses.";
    connections: u32, "", "Connections opened for it.";
    document_ms: Option<f64>, "ms", "From the beginning to the last byte of the document; empty where it did not come.";
    load_ms: Option<f64>, "ms", "From the beginning to the last byte of the last object, the page load time; empty where not all came.";
});

table!(Events, EventRow, "events",
    "The log of each TCP sender, where `measure.events` asks for it: a row per segment sent, acknowledgement and \
     timeout." {
    run: u32, "", "Number of the run.";
    flow: Name, "", "Name of the flow.";
    leg: Option<u32>, "", "Number of the leg, of a flow that proxies split; empty for the flow itself.";
    t_s: f64, "s", "When, in the run's time.";
    event: Name, "", "`sent`, `retransmitted`, `ack` or `timer`.";
    sequence: u64, "B", "First byte of the segment sent, or the byte acknowledged, from the start of the stream.";
    segment_bytes: u32, "B", "Payload of the segment; 0 otherwise.";
    cwnd_packets: u32, "packets", "Congestion window after the event.";
    ssthresh_packets: Option<u32>, "packets", "Slow start threshold after the event; empty while there is none.";
    inflight_packets: u32, "packets", "Packets in flight after the event.";
    sacked_packets: u32, "packets", "Packets selectively acknowledged and above the acknowledged byte, after the event.";
    lost_packets: u32, "packets", "Packets marked lost, after the event.";
    clamp_packets: Option<u32>, "packets", "Upper bound of the congestion window; empty while there is none.";
    snd_nxt_bytes: u64, "B", "Next byte to be sent for the first time, from the start of the stream, after the event.";
    rtt_ms: Option<f64>, "ms",
        "Round trip that the acknowledgement measured: of the segment that it delivers and that was sent last, as \
         the round trips of `flows` and `series` are; in emulations by the kernel's RACK. `srtt_ms` follows the \
         one sent first (RFC 6298). Empty otherwise.";
    srtt_ms: Option<f64>, "ms", "Smoothed round trip time; empty before the first sample.";
    rttvar_ms: Option<f64>, "ms", "Mean deviation of the round trip time, as `ss` and `TCP_INFO` show it; empty before the first sample.";
    rto_ms: f64, "ms", "Retransmission timeout.";
    receive_window_bytes: u64, "B", "Window the receiver advertised.";
    ca_state: Name, "", "`open`, `disorder`, `cwr`, `recovery` or `loss`.";
    pacing_mbps: Option<f64>, "Mbit/s", "Pacing rate; empty where the sender does not pace.";
});

table!(Releases, ReleaseRow, "releases",
    "How late an emulated link released its packets, behind the instants that it gave them: a row per directed link; \
     and how late the ends of a flow over QUIC took up arrivals and timers: a row per flow. \
     Empty in simulations." {
    run: u32, "", "Number of the run.";
    link: Name, "", "Name of the link and its direction: `satellite.down`; or of the flow: `download`.";
    released_packets: u64, "packets", "Packets released, or arrivals and timers.";
    late_p50_us: f64, "us", "Median lateness.";
    late_p99_us: f64, "us", "99th percentile of the lateness.";
    late_max_us: f64, "us", "Largest lateness.";
});

table!(Gaps, GapRow, "gaps",
    "What an emulated run could not record as fast as it came: a row per capture or log that is not whole. Empty \
     where nothing is missing." {
    run: u32, "", "Number of the run.";
    record: Name, "", "`capture` or `events`.";
    of: Name, "", "Name of the node whose capture it is, or of the flow whose log it is (empty: of any).";
    missing: u64, "", "Packets or events that are missing.";
});

table!(Connections, ConnectionRow, "connections",
    "What only a capture shows of a flow: a row per flow of a capture. Other engines do not write it." {
    run: u32, "", "Number of the capture, from 0.";
    flow: Name, "", "Name of the flow.";
    capture: Name, "", "The capture's name.";
    began_unix_s: f64, "s", "When the flow began, in seconds since 1970 by the clock of the capture's host.";
    side: Name, "",
        "Where the capture was taken: at the `sender`'s side of the path, at the `receiver`'s, or `between`; \
         `unknown` where the capture does not tell.";
    rtt_by: Name, "",
        "How round trips were measured: by `acknowledgements`, by `timestamps` (echoes of the receiver's clock), by \
         `both` halves, or by the `handshake` alone; empty where not at all.";
    opened_by: Name, "", "The end that opened the connection: `from` or `to`; empty where that was not captured.";
    syn_packets: u32, "packets", "SYNs of that end; more than one where it had to ask again.";
    handshake_from_ms: Option<f64>, "ms", "Part of the handshake between the capture's place and the sender of the data.";
    handshake_to_ms: Option<f64>, "ms", "Part of the handshake between the capture's place and the receiver of the data.";
    answer_ms: Option<f64>, "ms",
        "From the first data of the end that opened the connection, or where the other end speaks first from the end of the handshake, to \
         the other end's first data; empty where one of them was not captured.";
    mss_bytes: Option<u32>, "B", "Largest segment, options not counted: the smaller of the two announced.";
    window_scale: Option<u32>, "", "The receiver's window scale; empty where its SYN was not captured, or had none.";
    has_sack: bool, "", "Whether selective acknowledgements were agreed on, or seen.";
    has_timestamps: bool, "", "Whether segments carry timestamps.";
    captured_packets: u64, "packets", "Packets of the connection in the capture, both ways.";
    segment_bytes: u32, "B", "Payload that is counted as one packet.";
    merged_packets: Option<u64>, "packets",
        "Captured packets larger than that, which the host was still to cut up or had already joined; each is \
         counted as so many packets; empty where the data are not in the capture.";
    duplicated_packets: Option<u64>, "packets",
        "Packets that were captured twice, and are counted once; empty where the data are not in the capture.";
    reordered_packets: Option<u64>, "packets",
        "Data packets that passed behind later ones without having been sent again; empty where the data are not in \
         the capture.";
    reordering_max_ms: Option<f64>, "ms", "Longest time that such a packet came behind the first later one.";
    lost_before_packets: Option<u64>, "packets",
        "Data packets lost on the way from the sender to the capture's place: what filled their gaps was sent again; \
         empty where the data are not in the capture.";
    spurious_packets: Option<u64>, "packets",
        "Data packets that the receiver reported to have got twice (RFC 2883); empty where acknowledgements are not \
         in the capture.";
    unseen_packets: Option<u64>, "packets",
        "Data packets that were acknowledged but not captured; empty where the capture has one direction only.";
    loss_events: Option<u64>, "", "Times that one or several data packets in a row were lost; empty where the data are not in the capture.";
    loss_event_max_packets: Option<u32>, "packets", "Most of them in a row; empty where the data are not in the capture.";
    timeouts: Option<u64>, "",
        "Times that the oldest data were sent again after nothing had passed for 200 ms: retransmission timeouts as \
         far as a capture shows them; empty at the receiver's side.";
    zero_windows: Option<u64>, "packets", "Acknowledgements that closed the window; empty where acknowledgements are not in the capture.";
    receive_window_max_bytes: Option<u64>, "B",
        "Largest window that the receiver announced; empty where its SYN, which says how windows are scaled, was not \
         captured.";
    inflight_max_bytes: Option<u64>, "B", "Most data in flight; empty where the capture does not show it.";
    matched_packets: Option<u64>, "packets", "With captures of both sides: data packets that passed the sender's.";
    matched_lost_packets: Option<u64>, "packets", "Of them, those that never passed the receiver's.";
    matched_acknowledgements: Option<u64>, "packets", "With captures of both sides: packets without data that passed the receiver's.";
    matched_lost_acknowledgements: Option<u64>, "packets", "Of them, those that never passed the sender's.";
    ended_by: Name, "", "`fin`, `reset`, or empty where the capture has no end of the connection.";
});

table!(Losses, LossRow, "losses",
    "Losses of data packets in a capture, or by a stack's own log: a row per one or several in a row. Other engines do \
     not write it." {
    run: u32, "", "Number of the capture.";
    flow: Name, "", "Name of the flow.";
    t_s: f64, "s", "When the first of them was sent (behind the place of the loss: when its gap was seen), in the run's time.";
    how: Name, "",
        "How it is known: `matched` in captures of both sides; `sent_again` after it had passed; `gap`: it never \
         passed, and was sent again; `stack`: the sender's own log (a qlog) says so.";
    packets: u32, "packets", "How many in a row.";
    since_packets: u64, "packets", "Data packets sent from the loss before to this one, or from the beginning.";
    offset_bytes: u64, "B", "First byte lost, from the start of the stream.";
});

table!(Segments, SegmentRow, "segments",
    "The time sequence of the largest flows of a capture: a row per segment, acknowledgement and block of a \
     selective acknowledgement. Other engines do not write it." {
    run: u32, "", "Number of the capture.";
    flow: Name, "", "Name of the flow.";
    t_s: f64, "s", "When it passed the capture's place, in the run's time.";
    event: Name, "", "`sent`, `retransmitted`, `ack`, or `sack`: a block beyond a gap.";
    sequence: u64, "B", "First byte of the segment or of the block, or the byte acknowledged, from the start of the stream.";
    segment_bytes: u64, "B", "Payload of the segment, or bytes of the block; 0 for an acknowledgement.";
    receive_window_bytes: Option<u64>, "B",
        "Window that an acknowledgement advertised: the receiver takes data up to so many bytes behind the byte \
         acknowledged; empty otherwise.";
});

table!(Rounds, RoundRow, "rounds",
    "What kept a captured TCP flow's sender from sending: a row per round trip, or per longer stretch of a long flow. Other engines do not \
     write it." {
    run: u32, "", "Number of the capture.";
    flow: Name, "", "Name of the flow.";
    t_s: f64, "s", "End of the stretch, in the run's time.";
    length_s: f64, "s", "Its length.";
    sent_bytes: u64, "B", "Payload that passed, retransmissions included.";
    arrived_bytes: u64, "B", "Payload that arrived at the receiver, each byte once.";
    retransmitted_packets: u64, "packets", "Packets with data that had passed before.";
    inflight_max_bytes: Option<u64>, "B", "Most data in flight; empty where the capture does not show it.";
    rtt_min_ms: Option<f64>, "ms", "Shortest round trip measured; empty without one.";
    application_s: f64, "s",
        "How long the application had written nothing to send: pauses behind a short packet or one with PSH, or with nothing in flight.";
    receiver_s: f64, "s", "How long the receiver's window had no room for a segment.";
    window_s: f64, "s", "How long the sender waited for acknowledgements: pauses that one of them ended.";
    pacing_s: Option<f64>, "s", "Pauses that nothing ended that passed; empty where the sender is not near.";
    timeout_s: f64, "s", "How long it waited for a timeout.";
});

table!(Quic, QuicRow, "quic",
    "What captures alone tell of flows over QUIC, from outside of their encryption: a row per flow. Other engines do not write it." {
    run: u32, "", "Number of the capture.";
    flow: Name, "", "Name of the flow.";
    capture: Name, "", "Name of the capture.";
    version: Name, "", "Version that the first datagram says: `version 1`, `version 2`, `a draft`.";
    opened_by: Name, "", "`from` or `to`: the end that sent the first datagram.";
    has_retry: bool, "", "Whether the server asked the client to begin again, with a token.";
    handshake_from_ms: Option<f64>, "ms",
        "The handshake from the capture to the sender of the data and back; empty where the capture lacks a datagram of it.";
    handshake_to_ms: Option<f64>, "ms", "Likewise to the receiver and back.";
    spin_bit: Name, "",
        "The spin bit of the flow's direction: `spins`, and then it gives the round trips in `flows`; `constant`; `drawn` (it changes more \
         often than every fourth datagram); empty below 32 datagrams.";
    spin_turns: u64, "", "Round trips that the spin bit gave.";
    largest_datagram_bytes: u32, "B", "Payload of the largest datagram.";
    longest_pause_s: Option<f64>, "s", "Longest time between two of its datagrams; empty if there is one only.";
    longest_pause_from_s: Option<f64>, "s", "When it began, in the run's time.";
});

/// All tables of one or several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// A row per flow.
    pub flows: Flows,
    /// Flows over time.
    pub series: Series,
    /// Links over time.
    pub links: Links,
    /// Proxies over time.
    pub proxies: Proxies,
    /// Distributions of round trips.
    pub rtt: Rtt,
    /// Times at which sizes were reached.
    pub milestones: Milestones,
    /// Requests and pings.
    pub exchanges: Exchanges,
    /// Durations of the transactions of populations.
    pub responses: Responses,
    /// Quality of voice flows.
    pub voice: Voice,
    /// Quality of videos.
    pub videos: Videos,
    /// Quality of video calls.
    pub calls: Calls,
    /// Page loads.
    pub pages: Pages,
    /// The TCP log.
    pub events: Events,
    /// States of congestion controls over time.
    pub states: States,
    /// Lateness of the emulator's releases.
    pub releases: Releases,
    /// Gaps of captures and logs.
    pub gaps: Gaps,
}

impl Tables {
    /// All tables in the order of the schema.
    ///
    /// ```
    /// let names: Vec<_> = perigee_results::Tables::default().all().map(|table| table.name()).into();
    /// let expected = [
    ///     "flows", "series", "links", "proxies", "rtt", "milestones", "exchanges", "responses", "voice", "videos",
    ///     "calls", "pages", "events", "states", "releases", "gaps",
    /// ];
    /// assert_eq!(names, expected);
    /// ```
    pub fn all(&self) -> [&dyn Table; 16] {
        let Self {
            flows,
            series,
            links,
            proxies,
            rtt,
            milestones,
            exchanges,
            responses,
            voice,
            videos,
            calls,
            pages,
            events,
            states,
            releases,
            gaps,
        } = self;
        [
            flows, series, links, proxies, rtt, milestones, exchanges, responses, voice, videos, calls, pages, events,
            states, releases, gaps,
        ]
    }

    /// Moves all rows of `other` to the end of these tables.
    pub fn append(&mut self, mut other: Self) {
        macro_rules! append_each {
            ($($table:ident)+) => {{
                // Names all tables, so that none is forgotten.
                let Self { $($table,)+ } = &mut other;
                $(self.$table.append($table);)+
            }};
        }
        append_each!(flows series links proxies rtt milestones exchanges responses voice videos calls pages events states releases gaps);
    }
}

/// The tables that only captures have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaptureTables {
    /// A row per flow.
    pub connections: Connections,
    /// Single losses.
    pub losses: Losses,
    /// Segments and acknowledgements over time.
    pub segments: Segments,
    /// Waits of senders over time.
    pub rounds: Rounds,
    /// A row per flow over QUIC.
    pub quic: Quic,
}

impl CaptureTables {
    /// All tables in the order of the schema.
    ///
    /// ```
    /// let tables = perigee_results::CaptureTables::default();
    /// assert_eq!(tables.all().map(|table| table.name()), ["connections", "losses", "segments", "rounds", "quic"]);
    /// ```
    pub fn all(&self) -> [&dyn Table; 5] {
        [&self.connections, &self.losses, &self.segments, &self.rounds, &self.quic]
    }
}
