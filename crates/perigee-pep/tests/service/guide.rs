//! The guides' commands, as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::world::World;

#[test]
fn the_commands_of_the_guide_work() {
    run("deploy-pep.md");
}

#[test]
fn the_commands_of_the_guide_to_two_boxes_work() {
    run("two-boxes.md");
}

fn run(guide: &str) {
    let Some(world) = World::new() else { return };
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(guide);
    let text = fs::read_to_string(guide).unwrap();
    let (mut script, mut blocks) = (String::new(), 0);
    let parts: Vec<&str> = text.split("\n```").collect();
    for pair in parts.chunks_exact(2) {
        let [before, block] = pair else { continue };
        let (language, content) = block.split_once('\n').unwrap();
        match language {
            "toml" => {
                // "Save this as `name.toml`."
                let name = before.rsplit("Save this as `").next().and_then(|rest| rest.split('`').next()).unwrap();
                fs::write(world.folder.path().join(name), content).unwrap();
            }
            "console" => {
                let commands = content.lines().filter_map(|line| line.strip_prefix("# "));
                commands.for_each(|line| script.extend([line, "\n"]));
                blocks += 1;
            }
            _ => {}
        }
    }
    assert!(blocks > 3, "the guide has commands");
    let program = Path::new(env!("CARGO_BIN_EXE_perigee-pep")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    // A mount namespace of its own: names of network namespaces are files.
    let inside = "mount -t tmpfs tmpfs /run && mkdir -p /run/netns && exec bash -eu -o pipefail -c \"$1\"";
    command.args(["-c", "exec unshare -m bash -c \"$0\" - \"$1\"", inside, &script]);
    let output = world.client.enter(|| command.env("PATH", path).current_dir(world.folder.path()).output().unwrap());
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{said}");
}
