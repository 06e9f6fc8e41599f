//! Operations that the running service may no longer carry out.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt as _};
use std::path::Path;

use rustix::process::Signal;

use crate::transfers::TRANSPARENT;
use crate::world::{with_device, Service, World};

/// Whether a service, of which the kernel's confinement is as `confine` says, executes at a reload a program `nft` that was put
/// before the right one in `PATH` after its start; `None` where there is nothing to try it with.
fn executes_another_program(confine: bool) -> Option<bool> {
    let world = World::new()?;
    let folder = world.folder.path().display().to_string();
    let script = format!("mkdir {folder}/first && PATH={folder}/first:$PATH exec \"$0\" \"$@\"");
    let text = TRANSPARENT.replace("workers = 2", &format!("workers = 2\nconfine = {confine}"));
    let service = world.start_with(&script, &text);
    if confine && !is_confined(&service) {
        return None;
    }
    let (planted, trace) = (format!("{folder}/first/nft"), format!("{folder}/trace"));
    fs::write(&planted, format!("#!/bin/sh\ntouch {trace}\ncat > /dev/null\n")).unwrap();
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o700)).unwrap();
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    fs::remove_file(&planted).unwrap();
    let log = service.stop();
    assert!(confine || log.iter().any(|line| line.starts_with("confinement off")), "{log:#?}");
    Some(Path::new(&trace).exists())
}

/// Whether the kernel has all of the confinement; the reason is printed where it has not.
fn is_confined(service: &Service) -> bool {
    let line = service.await_line(&["confinement "]);
    let confined = line == "confinement user=yes capabilities=yes landlock=yes seccomp=yes";
    if !confined {
        println!("skipped: {line}");
    }
    confined
}

#[test]
fn a_confined_service_executes_the_programs_of_its_start_only() {
    for confine in [true, false] {
        let Some(executed) = executes_another_program(confine) else { continue };
        assert_eq!(executed, !confine);
    }
}

#[test]
fn a_confined_service_reads_its_configuration_again_and_no_file_elsewhere() {
    let Some(world) = World::new() else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join("other.toml");
    fs::write(&other, TRANSPARENT).unwrap();
    let service = world.start(TRANSPARENT);
    if !is_confined(&service) {
        return;
    }
    let own = world.folder.path().join("pep.toml");
    fs::remove_file(&own).unwrap();
    symlink(&other, &own).unwrap();
    service.signal(Signal::HUP);
    service.await_line(&["the old configuration stays", "Permission denied"]);
    // As an editor replaces it.
    let new = own.with_extension("new");
    fs::write(&new, TRANSPARENT).unwrap();
    fs::rename(&new, &own).unwrap();
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    service.stop();
}

#[test]
fn a_configuration_that_is_a_link_to_another_folder_is_read_again() {
    let Some(world) = World::new() else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let (other, own) = (elsewhere.path().join("other.toml"), world.folder.path().join("pep.toml"));
    fs::write(&other, TRANSPARENT).unwrap();
    symlink(&other, &own).unwrap();
    let service = World::start_at(&world.router, "exec \"$0\" \"$@\"", &own);
    fs::write(&other, TRANSPARENT.replace("workers = 2", "drain = \"1 s\"")).unwrap();
    service.signal(Signal::HUP);
    service.await_line(&["reloaded"]);
    service.stop();
}

#[test]
fn a_service_whose_files_all_can_read_is_a_user_without_their_rights() {
    let Some(world) = World::new() else { return };
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let service = world.start_with(&with_device(&world, "exec \"$0\" \"$@\""), TRANSPARENT);
    if is_confined(&service) {
        let status = fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        for name in ["Uid:", "Gid:"] {
            assert!(line(name).split_whitespace().all(|id| id != "0"), "{status}");
        }
        assert_eq!(line("Groups:"), "");
        assert_eq!([line("CapEff:"), line("CapBnd:")], ["0000000000003400"; 2]);
        // Its programs change rules and routes still, with one right.
        assert_eq!(line("CapAmb:"), "0000000000001000");
        world.config(&TRANSPARENT.replace("10.2.0.0/15", "10.2.0.0/16"));
        service.signal(Signal::HUP);
        service.await_line(&["reloaded"]);
        assert!(world.router.execute("nft list table inet perigee_pep").contains("10.2.0.0/16"));
    }
    service.stop();
    assert!(!world.router.execute("nft list tables").contains("perigee_pep"));
}

#[test]
fn nothing_is_left_in_a_folder_whose_files_their_owners_alone_remove() {
    let Some(world) = World::new() else { return };
    let folder = world.folder.path().join("shared");
    fs::create_dir(&folder).unwrap();
    for (path, mode) in [(world.folder.path(), 0o755), (&folder, 0o1777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let control = folder.join("control");
    let settings = format!("workers = 2\ncontrol = \"{}\"", control.display());
    let service = world.start(&TRANSPARENT.replace("workers = 2", &settings));
    assert!(world.ask("status").contains("state running"));
    assert_eq!(fs::metadata(&control).unwrap().permissions().mode() & 0o777, 0o600);
    service.stop();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn all_threads_of_the_service_are_confined() {
    let Some(world) = World::new() else { return };
    let first = format!("{TRANSPARENT}[legs.any]\n[[rules]]\nname = \"all\"\nclient = \"any\"\nserver = \"any\"\nconnect_first = true\n");
    let service = world.start(&first);
    if is_confined(&service) {
        let threads = fs::read_dir(format!("/proc/{}/task", service.id())).unwrap();
        let all: Vec<String> =
            threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap()).collect();
        // Two workers, the log, the waiting clients, and the first.
        assert_eq!(all.len(), 5);
        for status in all {
            for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000003402", "CapBnd:\t0000000000003402"] {
                assert!(status.lines().any(|each| each == line), "{line}\n{status}");
            }
        }
    }
    service.stop();
}
