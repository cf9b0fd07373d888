//! The rule of mapping, in its two forms.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::lab::node::paths::PathMap;

const ROOT: &str = "/home/someone/lab.d/nodes/n-1";

/// Command lines, and what they become; `R` is the root folder.
const TABLE: [(&str, &str); 24] = [
    (
        "cat /sys/class/dmi/id/product_uuid",
        "cat R/sys/class/dmi/id/product_uuid",
    ),
    (
        "sudo /opt/bin/kubectl drain n-1",
        "sudo R/opt/bin/kubectl drain n-1",
    ),
    ("ls /opt /root /mnt", "ls R/opt R/root R/mnt"),
    (
        "sh -c 'cat </etc/kubernetes/admin.conf>/tmp/x'",
        "sh -c 'cat <R/etc/kubernetes/admin.conf>R/tmp/x'",
    ),
    (
        "x=\"/home/cloud\";cd /var/lib/&&ls",
        "x=\"R/home/cloud\";cd R/var/lib/&&ls",
    ),
    (
        "PATH=/usr/bin:/opt/bin:/bin kubectl",
        "PATH=/usr/bin:R/opt/bin:/bin kubectl",
    ),
    (
        "kubectl --kubeconfig=/root/.kube/config",
        "kubectl --kubeconfig=R/root/.kube/config",
    ),
    (
        "echo `/opt/x` $(/opt/y) {/opt/a,/opt/b}",
        "echo `R/opt/x` $(R/opt/y) {R/opt/a,R/opt/b}",
    ),
    ("curl -d @/tmp/body", "curl -d @R/tmp/body"),
    ("/opt", "R/opt"),
    ("/opt//deploy", "R/opt//deploy"),
    ("ls /opt*", "ls R/opt*"),
    // Other paths, and names that only look alike.
    (
        "/option /opt.bak /opt-1 /rooted",
        "/option /opt.bak /opt-1 /rooted",
    ),
    ("/usr/opt /srv/home/x", "/usr/opt /srv/home/x"),
    (
        "/etc/passwd /var/run /sys/class/net",
        "/etc/passwd /var/run /sys/class/net",
    ),
    (
        "https://host/opt/x http://h:80/root",
        "https://host/opt/x http://h:80/root",
    ),
    ("$HOME/opt ~/mnt ./tmp", "$HOME/opt ~/mnt ./tmp"),
    // What lies in the root folder stays as it is.
    ("cat R/opt/x", "cat R/opt/x"),
    ("R", "R"),
    ("ls R/root /root", "ls R/root R/root"),
    (
        "/home/someone/lab.d/nodes/n-10/opt",
        "R/home/someone/lab.d/nodes/n-10/opt",
    ),
    ("/home/someone/labxd/nodes/n-1", "R/home/someone/labxd/nodes/n-1"),
    ("a\n/opt/b\n", "a\nR/opt/b\n"),
    ("grüße /opt/ü", "grüße R/opt/ü"),
];

fn filled(text: &str) -> String {
    text.replace('R', ROOT)
}

#[test]
fn paths_are_mapped_and_never_twice() {
    let map = PathMap::new(Path::new(ROOT)).unwrap();
    for (line, mapped) in TABLE {
        let (line, mapped) = (filled(line), filled(mapped));
        assert_eq!(map.map(&line), mapped, "of {line}");
        assert_eq!(map.map(&mapped), mapped, "again");
    }
}

#[test]
fn the_sed_script_maps_alike() {
    let map = PathMap::new(Path::new(ROOT)).unwrap();
    for (line, mapped) in TABLE {
        let (line, mapped) = (filled(line), filled(mapped));
        let mut sed = Command::new("sed")
            .args(["-E", &map.sed()])
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        sed.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let out = sed.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), mapped, "of {line}");
    }
}

#[test]
fn a_root_folder_that_would_need_quoting_is_refused() {
    for bad in ["/with space/n", "/qu'ote", "relative/n", "/", "/a$b"] {
        assert!(PathMap::new(Path::new(bad)).is_err(), "{bad}");
    }
    assert_eq!(PathMap::new(Path::new("/data/x/")).unwrap().root(), "/data/x");
}

#[test]
fn no_path_leads_out_of_the_root_folder() {
    let map = PathMap::new(Path::new(ROOT)).unwrap();
    let inside = |path: &str| map.inside(path).map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(inside("/etc/x"), Ok(format!("{ROOT}/etc/x")));
    assert_eq!(inside("etc/./x"), Ok(format!("{ROOT}/etc/x")));
    assert_eq!(inside(&format!("{ROOT}/etc/x")), Ok(format!("{ROOT}/etc/x")));
    assert!(inside("/opt/../../x").is_err());
}
