//! The first boot of a node: what its user data asks for, done once per root folder.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use super::userdata::{FileToWrite, Run, UserData};
use super::{Machine, exec, shims};

/// How much of a program is looked at for the name of its interpreter.
const LONGEST_FIRST_LINE: u64 = 256;

/// Where cloud-init notes that the user's part ran; without the file it runs again at the next boot.
pub(super) fn semaphore(machine: &Machine) -> PathBuf {
    instance(machine).join("sem/config_scripts_user")
}

fn instance(machine: &Machine) -> PathBuf {
    machine
        .spec
        .root
        .join("var/lib/cloud/instances")
        .join(machine.spec.vm_id.to_string())
}

/// Writes the files of the user data; one that cannot be written is noted and the others are written.
pub(super) fn write_files(machine: &Machine, files: &[FileToWrite]) {
    for file in files {
        if let Err(error) = write_file(machine, file) {
            machine
                .journal
                .boot(&format!("user data: {}: {error}", file.path));
        }
    }
}

fn write_file(machine: &Machine, file: &FileToWrite) -> Result<(), String> {
    let place = machine.map.inside(&file.path)?;
    let write = || {
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut open = OpenOptions::new()
            .create(true)
            .write(true)
            .append(file.append)
            .truncate(!file.append)
            .open(&place)?;
        open.write_all(&file.content)?;
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(file.mode))
    };
    write().map_err(|error: std::io::Error| error.to_string())
}

/// Runs the commands of the user data as root, in order, as one script; a failure does not stop the next,
/// and the last one's code counts.
pub(super) async fn run(machine: Arc<Machine>, data: UserData) {
    let code = match script(&machine, &data.commands) {
        Ok(Some(path)) => match start(&machine, &path).await {
            Ok(code) => code,
            Err(error) => {
                machine.journal.boot(&format!("user data: cannot run: {error}"));
                return;
            }
        },
        Ok(None) => 0,
        Err(error) => {
            machine
                .journal
                .boot(&format!("user data: cannot be stored: {error}"));
            return;
        }
    };
    machine.journal.boot(&format!("user data: done, code {code}"));
    if code == 0 {
        let success = format!("/home/{}/success", machine.spec.login_user);
        if let Err(error) = machine.store(&success, "", 0o644) {
            tracing::warn!(node = %machine.spec.hostname, %error, "the mark of a finished first boot is missing");
        }
    }
}

async fn start(machine: &Machine, script: &std::path::Path) -> std::io::Result<i32> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(machine.spec.root.join("var/log/cloud-init-output.log"))?;
    let shell = machine.map.lab().join("bin/sh");
    let mut child = exec::program(&machine.map, &shell, "root")
        .arg(script)
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    machine.enter(group);
    let ended = child.wait().await;
    machine.leave(group);
    Ok(exec::code(ended.as_ref().ok()))
}

fn script(machine: &Machine, commands: &[Run]) -> std::io::Result<Option<PathBuf>> {
    if commands.is_empty() {
        return Ok(None);
    }
    let mut text = String::from("#!/bin/sh\n");
    for command in commands {
        match command {
            Run::Words(words) => {
                let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
                let shell = words.first().and_then(|word| interpreter(machine, word));
                text.push_str(&shell.map_or_else(String::new, |shell| format!("{shell} ")));
                text.push_str(&quoted.join(" "));
            }
            Run::Text(line) => {
                let shell = interpreter(machine, line.split_whitespace().next().unwrap_or_default());
                text.push_str(&shell.map_or_else(String::new, |shell| format!("{shell} ")));
                text.push_str(line);
            }
        }
        text.push('\n');
    }
    let path = instance(machine).join("scripts/runcmd");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    shims::replace(&path, &text, 0o700)?;
    Ok(Some(path))
}

/// The node's shell for a script of its root folder, so that the paths inside it are mapped.
fn interpreter(machine: &Machine, program: &str) -> Option<&'static str> {
    if !program.starts_with('/') {
        return None;
    }
    let place = machine.map.inside(program).ok()?;
    let mut data = Vec::new();
    std::fs::File::open(place)
        .ok()?
        .take(LONGEST_FIRST_LINE)
        .read_to_end(&mut data)
        .ok()?;
    let first = data.split(|byte| *byte == b'\n').next()?;
    let first = String::from_utf8_lossy(first);
    let name = first.strip_prefix("#!")?;
    if name.contains("bash") {
        Some("bash")
    } else if name.contains("sh") {
        Some("sh")
    } else {
        None
    }
}

/// A word for the shell, whatever is in it.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
