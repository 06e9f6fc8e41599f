/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The log of TCP senders: a record per segment that leaves, acknowledgement that comes and timer that fires, of the
 * sockets that user space names. src/tcp_log.rs reads the records.
 *
 * A record holds the state before the event. What an event changed is what the next record of its socket begins with.
 * Programs stand on tracepoints, which any kernel has that traces; fields are relocated for the kernel at hand.
 */
typedef _Bool bool;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_RB_NO_WAKEUP = 1 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#define MAX_FLOWS 65536
#define RING_BYTES (16 << 20)
#define TCP_SYN 2
#define TCP_ACK 16
#define IPPROTO_TCP 6
#define IPV6_HEADER 40

enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT, TCP_SYN_RECV, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK, TCP_CLOSING = 11 };
/* Timers of icsk_pending: retransmission, loss probe, reordering. */
enum { ICSK_TIME_RETRANS = 1, ICSK_TIME_LOSS_PROBE = 5, ICSK_TIME_REO_TIMEOUT = 6 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be16 skc_dport;
	u16 skc_num;
	volatile u8 skc_state;
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	u64 sk_pacing_rate; /* bytes/s; all ones: unlimited */
	u32 sk_pacing_status;
};

struct timer_list {
	void *function;
};

struct inet_connection_sock {
	u64 icsk_timeout; /* jiffies; newer kernels have the timer's own only */
	struct timer_list icsk_retransmit_timer;
	u32 icsk_rto; /* jiffies */
	u8 icsk_ca_state : 5;
	u8 icsk_pending;
};

struct tcp_rack {
	u64 mstamp; /* when the most recently sent of the delivered segments was sent, us */
	u32 rtt_us; /* how long it took */
};

struct tcp_sock {
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_cwnd_clamp;
	u32 snd_wnd;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 srtt_us; /* << 3 */
	u32 mdev_us; /* << 2 */
	struct tcp_rack rack;
};

struct net_device {
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	u32 len;
	u8 *data;
};
#pragma clang attribute pop

/* Fields of the TCP header (RFC 9293), as in a packet. */
struct header {
	__be16 source;
	__be16 destination;
	__be32 seq;
	__be32 ack;
	u8 offset; /* in its upper half, words */
	u8 flags;
};

enum kind { SENT, ACK, TIMER };

/* As src/tcp_log.rs has it. */
struct record {
	u64 at_ns;
	u64 pacing_rate; /* bytes/s; 0: not paced */
	u32 flow;
	u32 seq;
	u32 bytes;
	u32 una;
	u32 window; /* bytes */
	u32 cwnd;
	u32 ssthresh;
	u32 packets_out;
	u32 sacked;
	u32 lost;
	u32 retrans;
	u32 srtt_us; /* << 3 */
	u32 rto; /* jiffies */
	u8 kind;
	u8 ca_state;
	u8 padding[2];
	u32 next;
	u32 clamp;
	u32 mdev_us; /* << 2 */
	u32 rtt_us;
	u64 delivered_sent_us;
};

/* One end of a connection: the port that listens, here or at the other end. */
struct key {
	u32 netns;
	u16 port;
	u16 is_local;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct key);
	__type(value, u32);
} flows SEC(".maps");

/* The socket of each flow, once it has sent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, u32);
	__type(value, u64);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} records SEC(".maps");

/* Records for which there was no room. */
u64 lost_records;

extern const void tcp_write_timer __ksym;

static __always_inline u32 *flow_of(u32 netns, u16 local, u16 remote)
{
	struct key key = { .netns = netns, .port = local, .is_local = 1 };
	u32 *flow = bpf_map_lookup_elem(&flows, &key);

	if (flow)
		return flow;
	key.port = remote;
	key.is_local = 0;
	return bpf_map_lookup_elem(&flows, &key);
}

static __always_inline u32 *flow_of_socket(struct sock *sk)
{
	return flow_of(BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum), BPF_CORE_READ(sk, __sk_common.skc_num),
		       bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport)));
}

/* The TCP header of an IP packet; how long the headers are, 0: it is none. */
static __always_inline u32 header_of(struct sk_buff *skb, struct header *header)
{
	u8 *data = BPF_CORE_READ(skb, data), first = 0, protocol = 0;
	u32 length;

	if (bpf_probe_read_kernel(&first, 1, data))
		return 0;
	if (first >> 4 == 4) {
		length = (first & 15) * 4;
		bpf_probe_read_kernel(&protocol, 1, data + 9);
	} else {
		length = IPV6_HEADER;
		bpf_probe_read_kernel(&protocol, 1, data + 6);
	}
	if (protocol != IPPROTO_TCP || bpf_probe_read_kernel(header, sizeof(*header), data + length))
		return 0;
	return length + (header->offset >> 4) * 4;
}

static __always_inline u32 namespace_of(struct sk_buff *skb)
{
	return BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);
}

static __always_inline bool has_stream(struct sock *sk)
{
	u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);

	return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSE_WAIT ||
	       state == TCP_LAST_ACK || state == TCP_CLOSING;
}

/* Writes a record with the state of the socket, where there is room. */
static __always_inline int log(struct sock *sk, u32 flow, enum kind kind, u32 seq, u32 bytes)
{
	struct inet_connection_sock *icsk = (void *)sk;
	struct tcp_sock *tp = (void *)sk;
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		__sync_fetch_and_add(&lost_records, 1);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->at_ns = bpf_ktime_get_ns();
	r->flow = flow;
	r->kind = kind;
	r->seq = seq;
	r->bytes = bytes;
	if (BPF_CORE_READ(sk, sk_pacing_status))
		r->pacing_rate = BPF_CORE_READ(sk, sk_pacing_rate);
	r->una = BPF_CORE_READ(tp, snd_una);
	r->window = BPF_CORE_READ(tp, snd_wnd);
	r->cwnd = BPF_CORE_READ(tp, snd_cwnd);
	r->ssthresh = BPF_CORE_READ(tp, snd_ssthresh);
	r->packets_out = BPF_CORE_READ(tp, packets_out);
	r->sacked = BPF_CORE_READ(tp, sacked_out);
	r->lost = BPF_CORE_READ(tp, lost_out);
	r->retrans = BPF_CORE_READ(tp, retrans_out);
	r->srtt_us = BPF_CORE_READ(tp, srtt_us);
	r->next = BPF_CORE_READ(tp, snd_nxt);
	r->clamp = BPF_CORE_READ(tp, snd_cwnd_clamp);
	r->mdev_us = BPF_CORE_READ(tp, mdev_us);
	r->rtt_us = BPF_CORE_READ(tp, rack.rtt_us);
	r->delivered_sent_us = BPF_CORE_READ(tp, rack.mstamp);
	r->rto = BPF_CORE_READ(icsk, icsk_rto);
	r->ca_state = BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ca_state);
	/* Nobody is woken: the reader comes by itself, and waking it would cost the sender more than all of this. */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(log_sent, struct sk_buff *skb)
{
	struct sock *sk = BPF_CORE_READ(skb, sk);
	struct header header;
	u32 *flow, headers, bytes;
	u64 known;

	if (!sk)
		return 0;
	headers = header_of(skb, &header);
	if (!headers)
		return 0;
	flow = flow_of(namespace_of(skb), bpf_ntohs(header.source), bpf_ntohs(header.destination));
	if (!flow || !has_stream(sk))
		return 0;
	known = (u64)sk;
	bpf_map_update_elem(&sockets, flow, &known, 0);
	bytes = BPF_CORE_READ(skb, len) - headers;
	return bytes ? log(sk, *flow, SENT, bpf_ntohl(header.seq), bytes) : 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(log_ack, struct sk_buff *skb)
{
	struct header header;
	struct sock *sk;
	u32 *flow;
	u64 *known;

	if (!header_of(skb, &header) || !(header.flags & TCP_ACK) || header.flags & TCP_SYN)
		return 0;
	flow = flow_of(namespace_of(skb), bpf_ntohs(header.destination), bpf_ntohs(header.source));
	if (!flow)
		return 0;
	known = bpf_map_lookup_elem(&sockets, flow);
	if (!known)
		return 0;
	/* It may be gone: its memory says whether it is what it was. */
	sk = (void *)*known;
	if (flow_of_socket(sk) != flow || !has_stream(sk))
		return 0;
	return log(sk, *flow, ACK, bpf_ntohl(header.ack), 0);
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(log_timer, struct timer_list *timer)
{
	struct inet_connection_sock *icsk;
	struct sock *sk;
	u8 pending;
	u32 *flow;

	if (BPF_CORE_READ(timer, function) != &tcp_write_timer)
		return 0;
	icsk = (void *)timer - bpf_core_field_offset(struct inet_connection_sock, icsk_retransmit_timer);
	pending = BPF_CORE_READ(icsk, icsk_pending);
	if (pending != ICSK_TIME_RETRANS && pending != ICSK_TIME_LOSS_PROBE && pending != ICSK_TIME_REO_TIMEOUT)
		return 0;
	/* It was put off without the timer having been set anew. */
	if (bpf_core_field_exists(icsk->icsk_timeout) &&
	    (s32)((u32)BPF_CORE_READ(icsk, icsk_timeout) - (u32)bpf_jiffies64()) > 0)
		return 0;
	sk = (void *)icsk;
	flow = flow_of_socket(sk);
	return flow ? log(sk, *flow, TIMER, 0, 0) : 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
