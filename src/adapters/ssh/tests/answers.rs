//! The answers of the wrapper and of the proof, read from literal bytes.

use crate::adapters::ssh::prove::Evidence;
use crate::adapters::ssh::wrapper::{Answer, cut, file_name, read, run_name};
use crate::domain::id::VmId;
use crate::ports::shell::{Exit, NodeTarget, RunKey};

pub(super) fn target(id: &str, name: &str, addresses: &[&str]) -> NodeTarget {
    NodeTarget {
        vm_id: id.parse::<VmId>().unwrap(),
        vm_name: name.to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 22,
        user: "cloud".to_owned(),
        private_key: String::new().into(),
        host_keys: Vec::new(),
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
    }
}

const ID: &str = "0b9a1c2d-0000-4000-8000-0123456789ab";

#[test]
fn noise_before_the_answer_is_cut() {
    let (line, rest) = cut(b"Welcome!\nLast login: never\n@@cksd go\npayload\n@@cksd go\n").unwrap();
    assert_eq!((line, rest), ("go", &b"payload\n@@cksd go\n"[..]));
    // Noise that does not end its line: the wrapper begins a new one.
    assert_eq!(
        cut(b"\x1b[0mhello\n@@cksd state none\n").unwrap(),
        ("state none", &b""[..])
    );
    assert_eq!(cut(b"@@cksd go\n").unwrap(), ("go", &b""[..]));
    assert!(cut(b"This account is currently not available.\n").is_none());
    assert!(cut(b"half of a line: @@cksd go\n").is_none());
    assert!(
        cut(b"\n@@cksd go").is_none(),
        "a line that is not complete is no answer"
    );
}

#[test]
fn answers_are_read() {
    assert_eq!(read("go"), Some(Answer::Go));
    assert_eq!(read("state none"), Some(Answer::NotStarted));
    let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap();
    assert_eq!(
        read("state running 1764536000"),
        Some(Answer::Running(at(1_764_536_000)))
    );
    assert_eq!(
        read("state ended 1764536000 1764536060 exit 1"),
        Some(Answer::Ended(
            at(1_764_536_000),
            at(1_764_536_060),
            Exit::Exited(1)
        ))
    );
    assert_eq!(
        read("state ended 1 2 signal TERM"),
        Some(Answer::Ended(at(1), at(2), Exit::Signaled("TERM".into())))
    );
    assert_eq!(
        read("state ended 1 2 lost -"),
        Some(Answer::Ended(at(1), at(2), Exit::Signaled("LOST".into())))
    );
    assert_eq!(read("fence none 0"), Some(Answer::Fence(None)));
    let Some(Answer::Refused(text)) = read("refused older x 7") else {
        panic!("no refusal")
    };
    assert!(text.contains("epoch 7"), "{text}");
    assert_eq!(read("state ended 1 2 exit x"), None);
    assert_eq!(read("something else"), None);
}

#[test]
fn keys_become_plain_names() {
    let name = |key: &str| run_name(&RunKey(key.to_owned()));
    assert_eq!(name("drain-node-1.2"), "drain-node-1.2");
    let odd = name("drain/node 1/../x");
    assert!(odd.starts_with("drain-node-1----x-"), "{odd}");
    assert_ne!(odd, name("drain/node 1/../y"));
    assert_ne!(name("a/b"), name("a b"));
    assert!(name("").len() > 10);
    assert!(name(".hidden").starts_with('-'));
    assert!(name(&"x".repeat(500)).len() < 100);
}

#[test]
fn the_file_name_holds_the_hash() {
    assert_eq!(file_name().len(), "wrapper-0123456789ab.sh".len());
}

#[test]
fn the_machine_id_is_proof_in_either_case() {
    let evidence = Evidence::read(&format!("uuid {}\nhost other\nwrapper yes\n", ID.to_uppercase()));
    assert!(evidence.wrapper);
    assert_eq!(evidence.proves(&target(ID, "node-1", &[])), Ok(()));
}

#[test]
fn name_and_address_together_are_proof() {
    let said = "uuid 11111111-2222-3333-4444-555555555555\nhost node-1.lab.internal\naddress 10.1.1.7\naddress fe80::1\nwrapper no\n";
    let evidence = Evidence::read(said);
    assert_eq!(evidence.proves(&target(ID, "NODE-1", &["10.1.1.7"])), Ok(()));
    let text = evidence.proves(&target(ID, "node-1", &["10.1.1.8"])).unwrap_err();
    assert!(
        text.contains("10.1.1.7") && text.contains("10.1.1.8") && text.contains(ID),
        "{text}"
    );
    assert!(evidence.proves(&target(ID, "node-2", &["10.1.1.7"])).is_err());
}

#[test]
fn nothing_is_no_proof() {
    let evidence = Evidence::read("host \nwrapper no\n");
    assert!(evidence.proves(&target(ID, "", &[])).is_err());
    assert!(evidence.proves(&target(ID, "node-1", &["10.1.1.7"])).is_err());
}
