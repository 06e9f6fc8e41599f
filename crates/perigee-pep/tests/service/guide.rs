//! The guide's commands, as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::world::World;

#[test]
fn the_commands_of_the_guide_work() {
    let Some(world) = World::new() else { return };
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/deploy-pep.md");
    let text = fs::read_to_string(guide).unwrap();
    let (mut script, mut blocks) = (String::new(), 0);
    for block in text.split("\n```").skip(1).step_by(2) {
        let (language, content) = block.split_once('\n').unwrap();
        match language {
            "toml" => fs::write(world.folder.path().join("pep.toml"), content).unwrap(),
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
