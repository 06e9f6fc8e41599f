//! Measures copying and splicing: a bulk transfer, and echoes of 64 bytes, through a service on the loopback device.
//!
//! `cargo run --release -p perigee-pep --example transfer`
#![allow(clippy::disallowed_methods, reason = "measures with the machine's clock")]

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io, thread};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    // The service is this program in a process of its own.
    if !arguments.is_empty() {
        return ExitCode::from(perigee_pep::main(&arguments));
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> io::Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let folder = tempfile::tempdir()?;
    println!("| | bulk, Gbit/s | processor, s per GB | echo p50, us | echo p99, us |\n|---|---:|---:|---:|---:|");
    for round in 1..=ROUNDS {
        for (name, splice) in [("copy", false), ("splice", true)] {
            let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            let path = folder.path().join("pep.toml");
            let config = format!(
                "[service]\nworkers = 1\nsplice = {splice}\n[allow]\nsources = [\"127.0.0.1\"]\n\
                 destinations = [\"127.0.0.1\"]\nlocal = true\n[[forward]]\nlisten = \"{free}\"\ntarget = \"{}\"\n",
                server.local_addr()?
            );
            fs::write(&path, config)?;
            let mut service =
                Command::new(env::current_exe()?).arg("run").arg(&path).stderr(std::process::Stdio::null()).spawn()?;
            let connect = || loop {
                match TcpStream::connect(free) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => thread::yield_now(),
                    connected => return connected,
                }
            };
            let (gbps, cost) = bulk(connect()?, &server, &service)?;
            let (p50, p99) = echoes(connect()?, &server)?;
            println!("| {name}, round {round} | {gbps:.2} | {cost:.3} | {p50:.1} | {p99:.1} |");
            service.kill()?;
            service.wait()?;
        }
    }
    Ok(())
}

/// Throughput, and the processor time of the service for a gigabyte.
fn bulk(mut client: TcpStream, server: &TcpListener, service: &Child) -> io::Result<(f64, f64)> {
    let (mut from, _) = server.accept()?;
    let block = vec![7; 256 << 10];
    let began = (Instant::now(), processor(service)?);
    let writer = thread::spawn(move || (0..BULK / block.len()).try_for_each(|_| from.write_all(&block)));
    let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
    loop {
        match client.read(&mut buffer)? {
            0 => break,
            length => received += length,
        }
    }
    writer.join().map_err(|_| io::Error::other("the writer panicked"))??;
    let (seconds, gigabytes) = (began.0.elapsed().as_secs_f64(), received as f64 * 1e-9);
    Ok((8.0 * gigabytes / seconds, (processor(service)? - began.1) / gigabytes))
}

/// Median and 99th percentile of round trips, in us.
fn echoes(mut client: TcpStream, server: &TcpListener) -> io::Result<(f64, f64)> {
    let (mut far, _) = server.accept()?;
    client.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let answering = thread::spawn(move || {
        let mut question = [0; 64];
        (0..ECHOES).try_for_each(|_| far.read_exact(&mut question).and_then(|()| far.write_all(&question)))
    });
    let (mut times, mut answer) = (Vec::with_capacity(ECHOES), [0; 64]);
    for _ in 0..ECHOES {
        let began = Instant::now();
        client.write_all(&[1; 64])?;
        client.read_exact(&mut answer)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    answering.join().map_err(|_| io::Error::other("the server panicked"))??;
    times.sort_by(f64::total_cmp);
    Ok((times[ECHOES / 2], times[ECHOES * 99 / 100]))
}

/// Processor time of a process, seconds.
fn processor(process: &Child) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
    // Fields 14 and 15, of which the name in parentheses is the second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / TICKS_PER_S)
}

const ROUNDS: u32 = 3;
/// Bytes of a bulk transfer.
const BULK: usize = 4 << 30;
const ECHOES: usize = 20_000;
/// `sysconf(_SC_CLK_TCK)` of Linux on all its architectures.
const TICKS_PER_S: f64 = 100.0;
