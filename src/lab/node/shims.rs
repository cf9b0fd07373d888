//! The stand-ins in a node's `PATH`: `sudo`, the shells, `hostname`, `kubeadm` and the like. Each is a small sh
//! script, written anew at each boot; their texts are the files in `shims/`.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::NodeSpec;
use super::paths::PathMap;

/// Where the machine's own programs are found.
pub(super) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the lab itself answers, through the spool of [`super::requests`].
const ASKED: [&str; 6] = ["kubeadm", "systemctl", "shutdown", "poweroff", "reboot", "halt"];

/// Writes all stand-ins, the sed script and the library that they share.
pub(super) fn write(map: &PathMap, spec: &NodeSpec) -> io::Result<()> {
    let lab = map.lab();
    let bin = lab.join("bin");
    std::fs::create_dir_all(&bin)?;
    let addresses: Vec<String> = spec.addresses.iter().map(ToString::to_string).collect();
    let fill = |text: &str, name: &str| {
        text.replace("@ROOT@", map.root())
            .replace("@LOGIN@", &spec.login_user)
            .replace("@HOSTNAME@", &spec.hostname)
            .replace("@ADDRESSES@", &addresses.join(" "))
            .replace("@CANDIDATES@", &PathMap::case_candidates())
            .replace("@BEGINNINGS@", &PathMap::case_beginnings())
            .replace("@SYSTEM_PATH@", SYSTEM_PATH)
            .replace("@SHELL@", &format!("/bin/{name}"))
            .replace("@NAME@", name)
    };
    replace(&lab.join("map.sed"), &map.sed(), 0o644)?;
    replace(
        &lab.join("lib.sh"),
        &fill(include_str!("shims/lib.sh"), ""),
        0o644,
    )?;
    for (name, text) in [
        ("sudo", include_str!("shims/sudo.sh")),
        ("sh", include_str!("shims/shell.sh")),
        ("hostname", include_str!("shims/hostname.sh")),
        ("uname", include_str!("shims/uname.sh")),
        ("ip", include_str!("shims/ip.sh")),
        ("id", include_str!("shims/id.sh")),
        ("whoami", include_str!("shims/id.sh")),
    ] {
        replace(&bin.join(name), &fill(text, name), 0o755)?;
    }
    if Path::new("/bin/bash").exists() {
        replace(
            &bin.join("bash"),
            &fill(include_str!("shims/shell.sh"), "bash"),
            0o755,
        )?;
    }
    for name in ASKED {
        replace(
            &bin.join(name),
            &fill(include_str!("shims/request.sh"), name),
            0o755,
        )?;
    }
    Ok(())
}

/// Puts a file in place in one move: a process of an earlier lab may be running it.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let part = path.with_file_name(name);
    std::fs::write(&part, text)?;
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&part, path)
}
