/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The choice of a congestion control for sockets that did not choose one themselves: by rules when they connect or are
 * accepted, and by an order for those that are open. src/selection.rs loads it.
 *
 * A socket that is given an algorithm keeps a note of what it had, so that unloading can give that back. The note
 * belongs to the socket and ends with it.
 *
 * A rule applies to a cgroup and what is below it, to a destination prefix, to an interface. The rules of the deepest
 * cgroup decide; among them the longest prefix, and of two equal prefixes the one with an interface. A cgroup is a hash
 * of its path, since a service that is started again has a new cgroup of the same path.
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

enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LPM_TRIE = 11, BPF_MAP_TYPE_SK_STORAGE = 24 };
enum { BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_SOCK_OPS_TCP_CONNECT_CB = 3, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define MAX_RULES 65536
#define CC_NAME 16
#define DEVICE_NAME 16
#define CGROUP_TEXT 256
#define CGROUP_WORDS (CGROUP_TEXT / 8)
#define MAX_DEPTH 16
#define SCOPE_BITS 288 /* of a key before its address */
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define AF_INET 2
#define RTAX_CC_ALGO 16
#define METRICS_FLAGS 3ul
/* FNV-1a of 64 bits. */
#define HASH_BASIS 0xcbf29ce484222325ull
#define HASH_PRIME 0x100000001b3ull

enum { TCP_CLOSE = 7, TCP_LISTEN = 10 };

/* linux/bpf.h; the kernel translates its offsets. */
struct bpf_sock_ops {
	u32 op;
	u32 others[45];
	struct bpf_sock *sk;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net {
	u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	u8 in6_u[16];
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
};

struct net_device {
	char name[DEVICE_NAME];
};

struct dst_entry {
	struct net_device *dev;
	unsigned long _metrics;
};

struct kernfs_node {
	const char *name;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_connection_sock {
	const void *icsk_ca_ops;
	u8 icsk_ca_state : 5, icsk_ca_initialized : 1, icsk_ca_setsockopt : 1, icsk_ca_dst_locked : 1;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};
#pragma clang attribute pop

struct tcp_sock;

/* As src/rules.rs has it. */
struct key {
	u32 bits; /* SCOPE_BITS and those of the prefix */
	u32 padding;
	u64 netns; /* cookie of the interface's; 0: any interface */
	u64 cgroup; /* hash of its path; 0: any */
	char device[DEVICE_NAME];
	u8 address[16]; /* IPv4 as ::ffff:a.b.c.d */
};

_Static_assert(sizeof(struct key) == 4 + SCOPE_BITS / 8 + 16, "the scope stands between length and address");

struct rule {
	u64 connections; /* that it has chosen for */
	u32 number;
	u32 bits; /* of the prefix */
	char cc[CC_NAME];
	char cgroup[CGROUP_TEXT];
};

struct note {
	char before[CC_NAME];
	char given[CC_NAME];
};

enum action { GIVE, GIVE_BACK, LIST };

/* As src/selection.rs has it. */
struct order {
	u32 action;
	u32 port; /* at either end; 0: any */
	u32 bits; /* of the prefix of the peer's address */
	u32 padding;
	u8 address[16];
	char cc[CC_NAME];
	char otherwise[CC_NAME]; /* instead of what a socket had and the kernel has no more */
	u64 done;
	u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_RULES);
	__type(key, struct key);
	__type(value, struct rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct note);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct order);
} orders SEC(".maps");

static __always_inline bool is_same(const char *a, const char *b)
{
	const u64 *x = (const void *)a, *y = (const void *)b;

	return x[0] == y[0] && x[1] == y[1];
}

static __always_inline void copy(char *to, const char *from)
{
	__builtin_memcpy(to, from, CC_NAME);
}

static __always_inline void peer_of(struct sock *sk, u8 *address)
{
	__be32 v4 = BPF_CORE_READ(sk, __sk_common.skc_daddr);

	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_INET) {
		BPF_CORE_READ_INTO((struct in6_addr *)address, sk, __sk_common.skc_v6_daddr);
		return;
	}
	__builtin_memset(address, 0, 10);
	address[10] = address[11] = 0xff;
	__builtin_memcpy(address + 12, &v4, sizeof(v4));
}

static __always_inline bool has_route_chosen(struct sock *sk)
{
	u64 metrics = BPF_CORE_READ(sk, sk_dst_cache, _metrics) & ~METRICS_FLAGS;
	u32 chosen = 0;

	if (metrics)
		bpf_probe_read_kernel(&chosen, sizeof(chosen), (void *)(metrics + (RTAX_CC_ALGO - 1) * sizeof(u32)));
	return chosen != 0;
}

/* The note of a socket that is about to be given `cc`; NULL where there is no memory. */
static __always_inline struct note *note_of(struct tcp_sock *tp, const char *cc, const char *now)
{
	struct note *note = bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!note)
		return 0;
	/* Given twice, it goes back to what it had first; unless its program has chosen between. */
	if (!is_same(note->given, now))
		copy(note->before, now);
	copy(note->given, cc);
	return note;
}

/* The rule for an address and an interface within one cgroup. */
static __always_inline struct rule *rule_of(struct key *key, const struct key *with_device)
{
	struct rule *any = bpf_map_lookup_elem(&rules, key);
	struct rule *its = with_device->device[0] ? bpf_map_lookup_elem(&rules, with_device) : 0;

	if (any && its)
		return its->bits >= any->bits ? its : any;
	return its ? its : any;
}

static __always_inline u64 hash_of(u64 hash, const char *name)
{
	u64 words[CGROUP_WORDS];

	__builtin_memset(words, 0, sizeof(words));
	bpf_probe_read_kernel_str(words, sizeof(words), name);
	for (int i = 0; i < CGROUP_WORDS; i++)
		hash = (hash ^ words[i]) * HASH_PRIME;
	return hash;
}

static __noinline u64 hash_of_level(struct cgroup *cgroup, u32 level, u64 hash)
{
	struct cgroup *ancestor = 0;
	void *place = (void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors) + level * sizeof(void *);

	bpf_probe_read_kernel(&ancestor, sizeof(ancestor), place);
	return hash_of(hash, BPF_CORE_READ(ancestor, kn, name));
}

SEC("sockops")
int choose(struct bpf_sock_ops *ops)
{
	struct key key = {}, with_device = {};
	struct rule *rule, *deeper;
	struct inet_connection_sock *icsk;
	struct tcp_sock *tp;
	struct cgroup *cgroup;
	struct sock *sk;
	struct note *note;
	char now[CC_NAME] = {};
	u64 hash = HASH_BASIS;
	u32 depth = 0;

	if ((ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) || !ops->sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(ops->sk);
	if (!tp)
		return 1;
	sk = (void *)tp;
	icsk = (void *)tp;
	if (BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ca_setsockopt) || has_route_chosen(sk))
		return 1;
	key.bits = SCOPE_BITS + 128;
	peer_of(sk, key.address);
	with_device = key;
	with_device.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, net_cookie);
	BPF_CORE_READ_INTO(&with_device.device, sk, sk_dst_cache, dev, name);
	rule = rule_of(&key, &with_device);
	cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	if (cgroup)
		depth = BPF_CORE_READ(cgroup, level);
	for (u32 level = 1; level <= MAX_DEPTH && level <= depth; level++) {
		hash = hash_of_level(cgroup, level, hash);
		key.cgroup = with_device.cgroup = hash;
		deeper = rule_of(&key, &with_device);
		if (deeper)
			rule = deeper;
	}
	if (!rule || bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, now, sizeof(now)))
		return 1;
	note = note_of(tp, rule->cc, now);
	if (note && !bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, note->given, CC_NAME))
		__sync_fetch_and_add(&rule->connections, 1);
	else
		bpf_sk_storage_delete(&sockets, tp);
	return 1;
}

static __always_inline bool is_ordered(struct sock *sk, const struct order *order)
{
	u16 peer = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	u8 address[16];

	if (order->port && order->port != peer && order->port != BPF_CORE_READ(sk, __sk_common.skc_num))
		return 0;
	peer_of(sk, address);
	for (u32 i = 0; i < 16; i++) {
		u32 left = order->bits > i * 8 ? order->bits - i * 8 : 0;
		u8 mask = left >= 8 ? 0xff : (u8)(0xff00 >> left);

		if ((address[i] ^ order->address[i]) & mask)
			return 0;
	}
	return 1;
}

static __always_inline void give(struct tcp_sock *tp, struct order *order, const char *now)
{
	struct inet_connection_sock *icsk = (void *)tp;
	const void *ops = BPF_CORE_READ(icsk, icsk_ca_ops);
	char cc[CC_NAME];

	/* Another version of the same name takes the place of its earlier one; what the socket had before stays. */
	copy(cc, order->cc);
	if (!is_same(now, cc) && !note_of(tp, cc, now)) {
		__sync_fetch_and_add(&order->refused, 1);
		return;
	}
	if (!bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, cc, sizeof(cc))) {
		if (BPF_CORE_READ(icsk, icsk_ca_ops) != ops)
			__sync_fetch_and_add(&order->done, 1);
		return;
	}
	__sync_fetch_and_add(&order->refused, 1);
	if (!is_same(now, cc))
		bpf_sk_storage_delete(&sockets, tp);
}

static __always_inline void give_back(struct tcp_sock *tp, struct order *order, const struct note *note)
{
	char cc[CC_NAME], otherwise[CC_NAME];

	copy(cc, note->before);
	copy(otherwise, order->otherwise);
	if (bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, cc, sizeof(cc)) &&
	    bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, otherwise, sizeof(otherwise))) {
		__sync_fetch_and_add(&order->refused, 1);
		return;
	}
	bpf_sk_storage_delete(&sockets, tp);
	__sync_fetch_and_add(&order->done, 1);
}

SEC("iter/tcp")
int visit(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct order *order;
	struct tcp_sock *tp;
	struct note *note;
	char now[CC_NAME] = {};
	u32 zero = 0;
	u64 cookie;

	order = bpf_map_lookup_elem(&orders, &zero);
	if (!skc || !order)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	/* A listening socket's connections begin with the default, or by rules. */
	if (!tp || skc->skc_state == TCP_LISTEN || skc->skc_state == TCP_CLOSE)
		return 0;
	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, now, sizeof(now)))
		return 0;
	if (order->action == GIVE) {
		if (is_ordered((void *)tp, order))
			give(tp, order, now);
		return 0;
	}
	note = bpf_sk_storage_get(&sockets, tp, 0, 0);
	if (!note || !is_same(now, order->cc) || !is_same(note->given, now))
		return 0;
	if (order->action == GIVE_BACK) {
		give_back(tp, order, note);
		return 0;
	}
	cookie = bpf_get_socket_cookie(tp);
	bpf_seq_write(ctx->meta->seq, &cookie, sizeof(cookie));
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
