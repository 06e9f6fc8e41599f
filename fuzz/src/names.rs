//! Fuzz target of the name server behind a link. The plain tests of `perigee-emu` replay the
//! corpus through the same function.

use std::net::Ipv4Addr;

use perigee_emu::dns::{answers, name_server, question, rewritten};

/// A `resolv.conf`, and the same bytes as a message.
pub(crate) fn names(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let near = Ipv4Addr::new(100, 64, 0, 1);
        let new = rewritten(text, near);
        assert_eq!(name_server(&new), Some(near.into()), "another name server is asked first");
        assert_eq!(
            new.lines().filter(|line| line.starts_with("nameserver")).count(),
            1,
            "another name server is asked"
        );
        assert_eq!(rewritten(&new, near), new, "a link behind a link has other names");
    }
    match question(data) {
        Some(number) => {
            assert!(!answers(data, number), "a question that is its own answer");
            let mut answer = data.to_vec();
            answer[2] |= 0x80;
            assert!(answers(&answer, number) && !answers(&answer, number ^ 1), "an answer to another question");
            assert_eq!(question(&answer), None, "an answer is passed on as a question");
        }
        None => assert!(data.len() < 12 || data[2] & 0x80 != 0, "a question is not passed on"),
    }
}
