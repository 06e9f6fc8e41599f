use super::*;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::host::sys::{buffer_locks, unsent_limit, RECEIVE_BUFFER};
use crate::legs::reader::PROOF;
use crate::legs::socket::deliver_urgent_in_line;
use rustix::net::sockopt;
use rustix::thread::{capabilities, set_capabilities, CapabilitySet};

#[test]
fn past_a_user_s_limit_of_pipes_bytes_are_copied() {
    // Capabilities are those of a thread.
    let unprivileged = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective &= !(CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets).unwrap();
        let mut others = Vec::new();
        while let Ok(pipe) = pipe_with(PipeFlags::CLOEXEC) {
            if fcntl_setpipe_size(&pipe.1, 1 << 20).is_err() {
                break;
            }
            others.push(pipe);
            if others.len() == 200 {
                println!("skipped: this host sets no limit of pipes for a user, or a high one");
                return;
            }
        }
        // The user's other processes may close pipes in the meantime.
        let mut last: Vec<Pipe> = Vec::new();
        let is_copied = (0..20).any(|_| {
            let before = last.len();
            last.extend(std::iter::from_fn(Pipe::new).take(64));
            assert!(last.len() < before + 64, "the limit holds");
            let mut memory = Memory::new(1 << 20, true);
            carry(vec![7; 4_000_000], &mut memory) <= BUFFER && memory.pipes.is_empty()
        });
        assert!(is_copied, "pipes are still used");
    });
    unprivileged.join().unwrap();
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Carries `data` from one peer to the other, and returns the largest amount of memory used on the way.
fn carry(data: Vec<u8>, memory: &mut Memory) -> usize {
    let ((mut client, near), (far, mut server)) = (pair(), pair());
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let expected = data.clone();
    let writer = std::thread::spawn(move || client.write_all(&data).unwrap());
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        all
    });
    let mut sockets = Sockets::new(near.into(), far.into());
    let mut most = 0;
    loop {
        let mut carrier = SocketCarrier { sockets: &mut sockets, memory };
        let done = if carrier.held(Side::Client) > 0 {
            carrier.send(Side::Client)
        } else {
            carrier.receive(Side::Client, usize::MAX)
        };
        most = most.max(memory.used());
        match done {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                std::thread::yield_now();
            }
        }
    }
    drop(sockets);
    writer.join().unwrap();
    assert!(reader.join().unwrap() == expected);
    assert_eq!(memory.used(), 0);
    most
}

#[test]
fn copied_and_spliced_bytes_are_the_same_and_memory_is_given_back() {
    let data: Vec<u8> = (0..8_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut memory = Memory::new(1 << 20, false);
    assert!(carry(data.clone(), &mut memory) <= BUFFER && memory.pipes.is_empty());
    memory.allow(1 << 20, true);
    assert!(carry(data, &mut memory) <= PIPE && !memory.pipes.is_empty());
    assert_eq!(carry(b"small".to_vec(), &mut memory), 0);
}

#[test]
fn a_bound_holds_for_each_write_and_what_is_bulk_is_copied_then() {
    let ((mut client, near), (far, mut server)) = (pair(), pair());
    client.write_all(&[7; 8000]).unwrap();
    let mut sockets = Sockets::new(near.into(), far.into());
    sockets.is_bulk[Side::Client as usize] = true;
    sockets.write_at_a_time(Side::Server, 3000);
    let mut memory = Memory::new(1 << 20, true);
    let mut carrier = SocketCarrier { sockets: &mut sockets, memory: &mut memory };
    let mut written = Vec::new();
    while written.iter().sum::<usize>() < 8000 {
        while carrier.held(Side::Client) == 0 {
            let _ = carrier.receive(Side::Client, usize::MAX);
        }
        written.push(carrier.send(Side::Client).unwrap());
    }
    assert!(written.iter().all(|bytes| *bytes <= 3000), "{written:?}");
    assert!(memory.pipes.is_empty());
    server.read_exact(&mut [0; 8000]).unwrap();
}

#[test]
fn bytes_behind_an_urgent_one_are_carried_and_so_is_that_one() {
    for has_ended in [true, false] {
        let ((mut client, near), (far, mut server)) = (pair(), pair());
        deliver_urgent_in_line(&near).unwrap();
        near.set_nonblocking(true).unwrap();
        let urgent = [vec![1; 20_000], vec![2], vec![3; 20_000]];
        client.write_all(&urgent[0]).unwrap();
        rustix::net::send(&client, &urgent[1], SendFlags::OOB).unwrap();
        client.write_all(&urgent[2]).unwrap();
        if has_ended {
            client.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let all = urgent.concat();
        // All bytes arrive before anything is read.
        while rustix::io::ioctl_fionread(&near).unwrap() < all.len() as u64 {
            std::thread::yield_now();
        }
        let mut sockets = Sockets::new(near.into(), far.into());
        sockets.is_bulk[Side::Client as usize] = true;
        let mut memory = Memory::new(1 << 20, true);
        let mut carrier = SocketCarrier { sockets: &mut sockets, memory: &mut memory };
        let end = loop {
            match carrier.receive(Side::Client, usize::MAX) {
                Ok(bytes) if bytes > 0 => {
                    // The socket treats the following bytes as bulk again.
                    carrier.sockets.is_bulk[Side::Client as usize] = true;
                    while carrier.held(Side::Client) > 0 {
                        carrier.send(Side::Client).unwrap();
                    }
                }
                end => break end,
            }
        };
        match end {
            Ok(bytes) => assert_eq!((bytes, has_ended), (0, true)),
            Err(error) => assert_eq!((error.kind(), has_ended), (io::ErrorKind::WouldBlock, false)),
        }
        drop(sockets);
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        assert!(received == all, "{} of {} bytes", received.len(), all.len());
    }
}

/// Carries what `client` has sent to a server that reads nothing, until its socket takes no more; returns the bytes sent.
fn stall(memory: &mut Memory, open: &mut Vec<(TcpStream, Sockets, TcpStream)>, is_bulk: bool) -> usize {
    let ((mut client, near), (far, server)) = (pair(), pair());
    sockopt::set_socket_send_buffer_size(&far, 1).unwrap();
    far.set_nonblocking(true).unwrap();
    // First fill the socket.
    let block = vec![9; BUFFER];
    while (&far).write(&block).is_ok() {}
    near.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut sockets = Sockets::new(near.into(), far.into());
    loop {
        let _ = client.write(&block);
        sockets.is_bulk[Side::Client as usize] = is_bulk;
        let mut carrier = SocketCarrier { sockets: &mut sockets, memory };
        if carrier.held(Side::Client) == 0 {
            let _ = carrier.receive(Side::Client, usize::MAX);
        } else if carrier.send(Side::Client).is_err() {
            let held = carrier.held(Side::Client);
            open.push((client, sockets, server));
            return held;
        }
    }
}

#[test]
fn what_a_stalled_reader_leaves_is_kept_in_its_size_and_its_direction_has_a_share_whatever_others_take() {
    for is_bulk in [false, true] {
        let (mut memory, mut open) = (Memory::new(0, true), Vec::new());
        let mut held = 0;
        while memory.room() > SHARE {
            held += stall(&mut memory, &mut open, is_bulk);
            assert_eq!(memory.used(), held);
        }
        assert!(held >= memory.limit - SHARE && held < memory.limit + BUFFER, "{held}");
        for _ in 0..10 {
            let more = stall(&mut memory, &mut open, is_bulk);
            assert!((1..=SHARE).contains(&more), "{more}");
        }
        for (_, sockets, _) in &mut open {
            sockets.release(&mut memory);
        }
        assert_eq!((memory.used(), memory.kept_pipes), (0, 0));
    }
}

#[test]
fn a_reader_that_takes_nothing_leaves_little_and_one_that_reads_has_no_bounds() {
    let ((mut client, near), (far, mut server)) = (pair(), pair());
    if buffer_locks(&near).is_err() {
        println!("skipped: Linux before 5.15");
        return;
    }
    for socket in [&client, &near, &far] {
        socket.set_nonblocking(true).unwrap();
    }
    // Segments of the loopback device are large, and send buffers begin with ten.
    sockopt::set_socket_send_buffer_size(&far, 32 << 10).unwrap();
    let (mut memory, mut sockets) = (Memory::new(1 << 20, true), Sockets::new(near.into(), far.into()));
    let mut step = |sockets: &mut Sockets| {
        let mut carrier = SocketCarrier { sockets, memory: &mut memory };
        let is_held = carrier.held(Side::Client) > 0;
        let done = if is_held { carrier.send(Side::Client) } else { carrier.receive(Side::Client, usize::MAX) };
        done.is_ok()
    };
    let (block, mut sent) = (vec![9; BUFFER], 0);
    loop {
        let written = client.write(&block).unwrap_or(0);
        sent += written;
        if !step(&mut sockets) && written == 0 {
            break;
        }
    }
    let bounds = |sockets: &Sockets| (buffer_locks(&sockets.ends[0]).unwrap(), unsent_limit(&sockets.ends[1]).unwrap());
    assert_eq!(bounds(&sockets), (RECEIVE_BUFFER, 64 << 10));
    let waiting = rustix::io::ioctl_fionread(&sockets.ends[0]).unwrap();
    assert!(waiting < 256 << 10, "{waiting} bytes wait");
    client.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || client.write_all(&vec![9; 4 * PROOF as usize]).unwrap());
    let mut missing = sent + 4 * PROOF as usize;
    server.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; BUFFER];
    while missing > 0 {
        step(&mut sockets);
        missing -= server.read(&mut buffer).unwrap_or(0);
    }
    writer.join().unwrap();
    assert_eq!(bounds(&sockets), (0, 0));
}

#[test]
fn beyond_the_pipes_that_may_be_kept_their_bytes_are_copied() {
    let mut memory = Memory::new(1 << 20, true);
    let pipe = memory.pipe().unwrap();
    rustix::io::write(&pipe.write, b"all of it").unwrap();
    memory.kept_pipes = KEPT / 2;
    let Store::Rest(rest, 0) = memory.keep(Store::Pipe(pipe, 9, 0)).unwrap() else { panic!("a pipe is kept") };
    assert_eq!((&rest[..], memory.used(), memory.pipes.len()), (&b"all of it"[..], 9, 1));
}
