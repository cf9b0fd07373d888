//! Tests of parameter checking and of the item of listApis.

use super::*;

const SCALE: Command = Command {
    name: "scaleThing",
    description: "Scales a thing",
    since: Some("4.14.0"),
    roles: &[Role::Admin],
    reply: Reply::Job("thing"),
    params: &[
        Param::required("id", ParamType::Uuid, "the thing"),
        Param::optional("size", ParamType::Long, "how many"),
        Param::optional("count", ParamType::Integer, "how many"),
        Param::optional("name", ParamType::String, "a name").length(5),
        Param::optional("day", ParamType::Date, "a day"),
        Param::optional("offerings", ParamType::Map, "by role").since("4.21.0"),
        Param::optional("on", ParamType::Boolean, "a flag"),
    ],
    response: &[Field::nested(
        "vms",
        FieldType::List,
        "machines",
        &[Field::new("id", FieldType::String, "the id")],
    )],
};

const ID: &str = "0b7b7d3e-9a51-4f3f-8f0e-3a2a3c1f6b11";

#[track_caller]
fn check(query: &str) -> Option<(u16, String)> {
    let params = Params::decode(Some(query), None).unwrap();
    SCALE
        .check(&params)
        .err()
        .map(|fault| (fault.code().number(), fault.text().to_owned()))
}

#[test]
fn missing_and_blank_required_parameters_are_named() {
    let missing = Some((
        431,
        "Unable to execute API command scalething due to missing parameter id".to_owned(),
    ));
    assert_eq!(check("size=1"), missing);
    assert_eq!(check("id="), missing);
}

#[test]
fn types_are_held() {
    for good in [
        "size=3",
        "size=-1",
        "count=",
        "name=abcde",
        "name=",
        "day=2026-01-02",
        "day=2026-01-02%2003:04:05",
        "on=perhaps",
        "offerings[0].node=worker",
        "unknown=%20&_=1&listall=true",
        "Size=4",
    ] {
        assert_eq!(check(&format!("id={ID}&{good}")), None, "{good}");
    }
    let invalid = |name: &str, value: &str| {
        Some((
            431,
            format!(
                "Unable to execute API command scalething due to invalid value {value} for parameter {name}"
            ),
        ))
    };
    assert_eq!(check(&format!("id={ID}&size=two")), invalid("size", "two"));
    assert_eq!(check(&format!("id={ID}&size=")), invalid("size", ""));
    assert_eq!(check(&format!("id={ID}&size=1.5")), invalid("size", "1.5"));
    assert_eq!(
        check(&format!("id={ID}&count=99999999999")),
        invalid("count", "99999999999")
    );
    assert_eq!(
        check(&format!("id={ID}&day=yesterday")),
        invalid("day", "yesterday")
    );
    assert_eq!(check(&format!("id={ID}&name=abcdef")).unwrap().0, 431);
    assert_eq!(check(&format!("id={ID}&offerings[x].node=a")).unwrap().0, 430);
}

#[test]
fn what_is_no_id_reads_like_an_unknown_id() {
    assert_eq!(
        check("id=7"),
        Some((
            431,
            "Unable to execute API command scalething due to invalid value. Invalid parameter id value=7 due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.".to_owned()
        ))
    );
}

#[test]
fn the_item_of_list_apis() {
    let item = SCALE.describe();
    assert_eq!(
        item["params"][0].to_string(),
        r#"{"name":"id","description":"the thing","type":"uuid","length":255,"required":true}"#
    );
    assert_eq!(item["params"][5]["since"], "4.21.0");
    assert_eq!(item["isasync"], true);
    assert_eq!(
        item["response"].to_string(),
        r#"[{"name":"vms","description":"machines","type":"list","response":[{"name":"id","description":"the id","type":"string"}]}]"#
    );
}

#[test]
fn dates_mean_the_first_or_the_last_second() {
    let at = |text: &str, day| read_date(text, day).map(|t| t.to_string());
    assert_eq!(
        at("2026-01-02", DayEnd::Start).as_deref(),
        Some("2026-01-02T00:00:00Z")
    );
    assert_eq!(
        at("2026-01-02", DayEnd::End).as_deref(),
        Some("2026-01-02T23:59:59Z")
    );
    assert_eq!(
        at("2026-01-02 03:04:05", DayEnd::End).as_deref(),
        Some("2026-01-02T03:04:05Z")
    );
    assert_eq!(
        at("2026-01-02T03:04:05+0100", DayEnd::End).as_deref(),
        Some("2026-01-02T02:04:05Z")
    );
}

#[test]
fn roles_have_names() {
    for role in Role::ALL {
        assert_eq!(Role::from_name(role.name()), Some(*role));
    }
    assert!(SCALE.allows(Role::Admin));
    assert!(!SCALE.allows(Role::User));
}
