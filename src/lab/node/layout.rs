//! The root folder of a node: the folders and files that it has from the start.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::paths::PathMap;
use super::{NodeSpec, shims};

/// Makes the folders and files that a node has from the start.
pub(super) fn lay_out(spec: &NodeSpec, map: &PathMap) -> io::Result<()> {
    let root = &spec.root;
    let home = format!("home/{}", spec.login_user);
    for folder in [
        "opt/bin",
        "etc/kubernetes",
        "etc/ssh",
        "root/.kube",
        &home,
        "mnt",
        "media",
        "tmp",
        "var/lib",
        "var/log",
        "sys/class/dmi/id",
        ".lab",
    ] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    for private in ["root", &home] {
        std::fs::set_permissions(root.join(private), std::fs::Permissions::from_mode(0o700))?;
    }
    link(&spec.kubectl, &root.join("opt/bin/kubectl"))?;
    // Where a CloudStack node has it; a first boot that sets its own PATH finds it only there.
    link(&map.lab().join("bin/kubeadm"), &root.join("opt/bin/kubeadm"))?;
    for (name, text) in [
        ("product_uuid", spec.vm_id.to_string()),
        ("product_name", "CloudStack KVM Hypervisor".to_owned()),
        ("sys_vendor", "Apache Software Foundation".to_owned()),
    ] {
        let path = root.join("sys/class/dmi/id").join(name);
        shims::replace(&path, &format!("{text}\n"), 0o444)?;
    }
    shims::replace(&root.join("etc/hostname"), &format!("{}\n", spec.hostname), 0o644)?;
    shims::write(map, spec)
}

/// Links to a program, unless something that is no link was put there (an upgrade does).
fn link(target: &Path, path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_symlink() => return Ok(()),
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    std::os::unix::fs::symlink(target, path)
}
