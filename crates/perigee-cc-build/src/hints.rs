//! Hints for fields of the socket that are not in both the simulator and the kernel: what both have instead.
//!
//! A compiler proposes names that look alike, which may be fields that only one of the two hosts has.

use std::fmt::Write as _;

/// Lines to add to a compiler's messages: one for each unknown field.
pub(crate) fn hints(messages: &str) -> String {
    let mut said: Vec<&str> = Vec::new();
    let mut text = String::new();
    if let Some(file) = messages.lines().find_map(foreign) {
        let _ = writeln!(
            text,
            "hint: this is written for the kernel's own headers; `perigee cc import {file}` makes a file of it that includes tcp.h"
        );
    }
    if messages.contains("with const-qualified type") {
        let _ = writeln!(text, "hint: of the socket, the kernel lets a congestion control write {WRITABLE} alone");
    }
    for line in messages.lines() {
        let Some(field) = unknown_field(line).filter(|field| !said.contains(field)) else { continue };
        said.push(field);
        if let Some((helper, what)) = helper(field) {
            let _ = writeln!(text, "hint: for `{field}`, the simulator and the kernel both have `{helper}`: {what}");
        } else if !proposal(line).is_some_and(is_in_both) {
            let _ =
                writeln!(text, "hint: `{field}`: the fields that the simulator and the kernel both have are in tcp.h");
        }
    }
    text
}

/// The file that a message says includes a header of the kernel's, which is not there.
fn foreign(line: &str) -> Option<&str> {
    let (place, missing) = line.split_once(": fatal error: ")?;
    let is_kernels = FOREIGN.iter().any(|start| missing.trim_start_matches('\'').starts_with(start));
    let mut file = place.rsplitn(3, ':');
    is_kernels.then(|| file.nth(2)).flatten()
}

/// The field that a message says a struct does not have.
fn unknown_field(line: &str) -> Option<&str> {
    quoted(line.split_once("no member named ")?.1)
}

/// Returns the name that the compiler proposes instead.
fn proposal(line: &str) -> Option<&str> {
    quoted(line.split_once("did you mean ")?.1)
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.split('\'').next()
}

/// The helper for what a field's name says.
fn helper(field: &str) -> Option<(&'static str, &'static str)> {
    let has = |words: &[&str]| words.iter().any(|word| field.contains(word));
    let found = HELPERS.iter().find(|(words, ..)| words.iter().all(|alternatives| has(alternatives)));
    found.map(|(_, helper, what)| (*helper, *what))
}

/// Whether `tcp.h` declares a name outside of what belongs to one host.
fn is_in_both(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    TCP_H.split(|c: char| !is_part(c)).any(|word| word == name)
}

/// How the names of headers begin that modules of the kernel and `struct_ops` programs include.
const FOREIGN: &[&str] = &["linux/", "net/", "asm/", "uapi/", "vmlinux.h", "bpf_tcp_helpers.h", "bpf_tracing_net.h"];
/// Fields without `SEEN` in `tcp.h`.
const WRITABLE: &str = "sk_pacing_rate, sk_pacing_status, icsk_ca_priv, icsk_ack.pending, snd_cwnd, snd_cwnd_cnt, \
                        snd_cwnd_stamp, snd_ssthresh, ecn_flags and app_limited";
const TCP_H: &str = include_str!("../../../algorithms/tcp.h");
/// All of the groups of words, any of each; the helper, and what it returns.
type Helper = (&'static [&'static [&'static str]], &'static str, &'static str);
const HELPERS: &[Helper] = &[
    (&[&["rtt"], &["min"]], "tcp_min_rtt(tp)", "the smallest round trip, us"),
    (&[&["lsnd", "last_sen", "idle"]], "since_last_send_ms(sk)", "the time since data were last sent, ms"),
    (&[&["rand", "prandom"]], "random_u32(sk)", "a random number"),
    (&[&["flight"]], "tcp_packets_in_flight(tp)", "the packets in flight"),
    (&[&["jiffies", "now", "clock", "mstamp"]], "now_ms(sk)", "the time, ms (`tcp_mstamp`: us)"),
    (&[&["ca_state"]], "ca_state(sk)", "the state of the congestion control"),
    (&[&["cwnd_limited"]], "tcp_is_cwnd_limited(sk)", "whether the window was used up"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_answered_with_what_both_hosts_have() {
        let clang = "x.c:9:20: error: no member named 'rtt_min_us' in 'struct tcp_sock'; did you mean 'rtt_min'?";
        let hint = "hint: for `rtt_min_us`, the simulator and the kernel both have `tcp_min_rtt(tp)`: the smallest round trip, us\n";
        assert_eq!(hints(clang), hint);
        assert_eq!(hints(&format!("{clang}\n{clang}")), hint);
        let gcc = "x.c:9:20: error: 'struct tcp_sock' has no member named 'rttvar_us'; did you mean 'rtt_min_us'?";
        assert!(hints(gcc).contains("in tcp.h"));
    }

    #[test]
    fn a_file_for_the_kernels_headers_is_answered_with_the_command_that_imports_it() {
        let gcc = "my/mod.c:2:10: fatal error: linux/module.h: No such file or directory";
        let hint = "hint: this is written for the kernel's own headers; `perigee cc import my/mod.c` \
                    makes a file of it that includes tcp.h\n";
        assert_eq!(hints(gcc), hint);
        assert_eq!(
            hints(&gcc.replace("linux/module.h: No such file or directory", "'vmlinux.h' file not found")),
            hint
        );
        assert_eq!(hints("my/mod.c:2:10: fatal error: mine.h: No such file or directory"), "");
    }

    #[test]
    fn a_field_that_the_kernel_keeps_to_itself_is_answered_with_those_it_does_not() {
        let clang = "x.c:9:20: error: cannot assign to non-static data member 'snd_cwnd_clamp' with const-qualified type 'const u32'";
        assert!(hints(clang).contains("snd_cwnd, snd_cwnd_cnt, snd_cwnd_stamp, snd_ssthresh"));
        for name in WRITABLE.split([',', ' ']).filter(|word| word.contains('_')) {
            let field = name.rsplit('.').next().unwrap();
            let declared = TCP_H.lines().find(|line| {
                let code = line.split(';').next().unwrap();
                code.split([' ', '\t', '[']).any(|word| word == field)
            });
            assert!(!declared.unwrap().contains("SEEN"), "{name}");
        }
    }

    #[test]
    fn a_proposal_that_both_hosts_have_stands_alone() {
        let gcc = "x.c:9:20: error: 'struct tcp_sock' has no member named 'snd_cwmd'; did you mean 'snd_cwnd'?";
        assert_eq!(hints(gcc), "");
        assert_eq!(hints("x.c:3:1: error: unknown type name 'u33'"), "");
    }
}
