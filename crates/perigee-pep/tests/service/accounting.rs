//! Lines of accounting: who has used what, and what has held it up.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::operation::connected;
use crate::transfers::TRANSPARENT;
use crate::world::{accept, bytes, until, World};

/// The lines of a file, all of them whole.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn sum(lines: &[Value], key: &str) -> u64 {
    lines.iter().filter(|line| line["kind"] == "use").map(|line| line[key].as_u64().unwrap()).sum()
}

/// The configuration with lines of accounting in a folder that the confined service may write to.
fn config(world: &World, more: &str) -> (String, std::path::PathBuf) {
    let folder = world.folder.path().join("accounts");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("use.jsonl");
    let control = format!("workers = 2\ncontrol = \"{}\"", world.folder.path().join("control").display());
    let text = TRANSPARENT.replace("workers = 2", &control);
    (format!("{text}[accounting]\nfile = \"{}\"\n{more}", path.display()), path)
}

#[test]
fn who_has_used_what_is_told_and_the_file_may_be_moved_away() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let (config, path) = config(&world, "connections = true\n");
    let service = world.start(&config);
    service.await_line(&["confinement user=yes capabilities=yes landlock=yes seccomp=yes"]);
    drop(connected(&world, &listener));
    service.await_line(&["connection rule=other"]);
    let old = path.with_extension("1");
    until(|| !lines(&path).is_empty());
    fs::rename(&path, &old).unwrap();
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    // Confined to its folder, it says what gives it another.
    let other = world.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    world.config(&config.replace(&path.display().to_string(), &other.join("use.jsonl").display().to_string()));
    service.signal(Signal::HUP);
    service.await_line(&["the old configuration stays", "Permission denied", "`perigee-pep upgrade`"]);
    let (_client, _server) = connected(&world, &listener);
    service.stop_at_once();
    let [old, new] = [lines(&old), lines(&path)];
    for (lines, end) in [(&old, "complete"), (&new, "aborted")] {
        assert_eq!(
            (sum(lines, "bytes_up"), sum(lines, "bytes_down"), sum(lines, "accepted")),
            (64, 64, 1),
            "{lines:#?}"
        );
        let ended = lines.iter().find(|line| line["kind"] == "connection").unwrap();
        let words = ["subscriber", "rule", "end"].map(|key| ended[key].as_str().unwrap());
        assert_eq!(words, ["10.1.0.2", "other", end]);
        assert!(ended["v"] == 1 && ended["at"].as_u64() > Some(1_700_000_000), "{ended}");
    }
}

#[test]
fn without_the_folder_of_accounting_a_reload_goes_on_and_says_that_nothing_is_written() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let (config, path) = config(&world, "connections = true\n");
    let service = world.start(&config);
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    world.config(&format!("{config}[legs.any]\n[[rules]]\nname = \"new\"\nclient = \"any\"\nserver = \"any\"\n"));
    service.signal(Signal::HUP);
    service.await_line(&["accounting: the same file is not opened again", "its folder is not there"]);
    service.await_line(&["reloaded"]);
    drop(connected(&world, &listener));
    service.await_line(&["connection rule=new"]);
    service.await_line(&["accounting not written reason=\"removed: "]);
    until(|| !world.ask("status").contains("\nunwritten 0\n"));
    // A confined service adds no file to a new folder; the next process does.
    fs::create_dir(path.parent().unwrap()).unwrap();
    world.ask("reload");
    service.await_line(&["accounting: the same file is not opened again", "`perigee-pep upgrade`"]);
    world.ask("upgrade");
    drop(connected(&world, &listener));
    until(|| connections(&lines(&path)) == 1);
    service.stop();
}

#[test]
fn a_full_disk_loses_no_connection_and_the_lost_lines_are_counted() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let (config, path) = config(&world, "connections = true\n");
    let service = world.start_with(&on_a_small_disk(&path), &config);
    for _ in 0..300 {
        drop(connected(&world, &listener));
    }
    service.await_line(&["accounting not written", "No space left on device"]);
    until(|| unwritten(&world) > 10);
    drop(connected(&world, &listener));
    // Whoever rotates the file makes room.
    let file = format!("/proc/{}/root{}", service.id(), path.display());
    let written = connections(&whole_lines(&file));
    fs::OpenOptions::new().write(true).truncate(true).open(&file).unwrap();
    drop(connected(&world, &listener));
    until(|| {
        let after = whole_lines(&file);
        let lost = after.iter().find(|line| line["kind"] == "lost").map_or(0, |line| line["lines"].as_u64().unwrap());
        lost > 0 && written + lost + connections(&after) == 302
    });
    let log = service.stop();
    assert_eq!(log.iter().filter(|line| line.contains("end=complete")).count(), 302, "{log:#?}");
}

#[test]
fn a_full_disk_during_an_upgrade_loses_no_use_and_tells_all_lost_lines() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let (config, path) = config(&world, "every = \"1 s\"\nconnections = true\n");
    let service = world.start_with(&on_a_small_disk(&path), &config);
    let old = service.id();
    let file = |process: u32, name: &str| format!("/proc/{process}/root{}", path.with_file_name(name).display());
    drop(connected(&world, &listener));
    until(|| connections(&whole_lines(&file(old, "use.jsonl"))) == 1);
    let filler = file(old, "filler");
    let mut full = fs::File::create(&filler).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    drop(full);
    (0..30).for_each(|_| drop(connected(&world, &listener)));
    let (client, server) = connected(&world, &listener);
    until(|| unwritten(&world) > 10);
    let pep = world.folder.path().join("pep.toml");
    let program = env!("CARGO_BIN_EXE_perigee-pep");
    world.router.execute(&format!("nsenter -t {old} -m {program} upgrade {}", pep.display()));
    until(|| service.id() != old);
    (0..30).for_each(|_| drop(connected(&world, &listener)));
    until(|| unwritten(&world) > 0);
    // The old process ends before there is room.
    drop((client, server));
    service.await_line(&["stopped"]);
    fs::remove_file(file(service.id(), "filler")).unwrap();
    drop(connected(&world, &listener));
    let (file, mut all) = (file(service.id(), "use.jsonl"), Vec::new());
    until(|| {
        all = whole_lines(&file);
        sum(&all, "accepted") == 63
    });
    assert_eq!((sum(&all, "complete"), sum(&all, "bytes_up")), (63, 63 * 64));
    let lost: u64 = all.iter().filter_map(|line| line["lines"].as_u64()).sum();
    // Lines of use are among them, which the next ones have.
    assert!(connections(&all) < 63 && connections(&all) + lost >= 63, "{lost} and {}", connections(&all));
    // No line is glued to another.
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.lines().all(|line| line.matches('{').count() == 1), "{text}");
    let log = service.stop();
    assert!(!log.iter().any(|line| line.starts_with("accounting ends")), "{log:#?}");
}

/// A script for [`World::start_with`]: the folder of a file is a disk of eight blocks, in a namespace of mounts that ends with the service.
fn on_a_small_disk(file: &Path) -> String {
    let mount = format!("mount -t tmpfs -o size=32k,mode=777 none {}", file.parent().unwrap().display());
    format!("exec unshare -m sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\"")
}

fn unwritten(world: &World) -> u64 {
    let status = world.ask("status");
    status.lines().find_map(|line| line.strip_prefix("unwritten ")).unwrap().parse().unwrap()
}

/// The lines of a file but for one that is torn.
fn whole_lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn connections(lines: &[Value]) -> u64 {
    lines.iter().filter(|line| line["kind"] == "connection").count() as u64
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pep.toml");
    let text = "[allow]\nlocal = true\nsources = [\"127.0.0.0/8\"]\ndestinations = [\"127.0.0.0/8\"]\n\
                [[forward]]\nlisten = \"127.0.0.1:9\"\ntarget = \"127.0.0.1:10\"\n\
                [accounting]\nfile = \"/no/such/folder/use.jsonl\"\n";
    fs::write(&path, text).unwrap();
    for command in ["run", "check", "doctor"] {
        let output = Command::new(env!("CARGO_BIN_EXE_perigee-pep")).arg(command).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let line = "pep.toml:9: `accounting.file` \"/no/such/folder/use.jsonl\": its folder is not";
        assert!(said.contains(line), "{command}: {said}");
    }
}

#[test]
fn it_is_told_who_holds_a_transfer_up() {
    let Some(world) = World::new() else { return };
    let listener = world.server.listen("0.0.0.0:80");
    let (config, path) = config(&world, "");
    let service = world.start(&config);
    // For a second and a half the reader does not read, and for as long the server sends in small pieces.
    let (mut client, mut server) = (world.client.connect("10.2.0.2:80"), accept(&listener).0);
    // More than all buffers hold.
    let sent = bytes(40_000_000, 1);
    let all = sent.clone();
    let writer = thread::spawn(move || {
        server.write_all(&all).unwrap();
        for _ in 0..15 {
            thread::sleep(Duration::from_millis(100));
            server.write_all(&[1]).unwrap();
        }
    });
    thread::sleep(Duration::from_millis(1500));
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    writer.join().unwrap();
    assert!(received.len() == sent.len() + 15 && received.starts_with(&sent));
    drop(client);
    service.await_line(&["connection rule=other"]);
    service.stop();
    let told = lines(&path);
    let ms = |key: &str| sum(&told, key) / 1000;
    assert!((1000..3000).contains(&ms("client_reader_us")), "{told:#?}");
    assert!((1000..3000).contains(&ms("server_arrival_us")), "{told:#?}");
    assert!(ms("client_path_us") < 1000, "{told:#?}");
    for key in ["server_path_us", "server_reader_us", "queue_bytes"] {
        assert_eq!(told.last().unwrap()[key], 0, "{told:#?}");
    }
}
