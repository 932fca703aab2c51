//! The written inventory parses to the original values.

use super::*;
use crate::config::{self, LoadOptions, StarterHost};
use proptest::prelude::*;
use serde_json::json;

fn load_inventory(text: &str) -> config::Project {
    let folder = tempfile::tempdir().unwrap();
    let path = camino::Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(path.join("recipes")).unwrap();
    std::fs::write(path.join("recipes/hello.yaml"), STARTER_RECIPE).unwrap();
    std::fs::write(path.join("inventory.yaml"), text).unwrap();
    let (project, diags, sources) = config::load_project(
        &path.join("inventory.yaml"),
        &LoadOptions { trust: false, embedded: &[], env: &|_| None, programs: crate::config::SecretPrograms::Skip },
    );
    let said: Vec<String> = diags.0.iter().map(|diag| crate::diag::render_diag(diag, &sources, false)).collect();
    assert!(said.is_empty(), "{text}\n{}", said.join("\n"));
    project.expect("no errors, so there is a project")
}

fn starting_with_vars(vars: IndexMap<String, Value>) -> StarterInventory {
    let host = StarterHost { vars, ..StarterHost::default() };
    StarterInventory { cluster: "c".into(), hosts: [("n1".to_owned(), host)].into(), groups: IndexMap::new() }
}

#[test]
fn starter_inventory_folds_hosts_and_writes_values_once() {
    let bare = StarterHost::default();
    let mut hosts: IndexMap<String, StarterHost> = (1..=3).map(|n| (format!("web{n:02}"), bare.clone())).collect();
    hosts.insert(
        "db".into(),
        StarterHost {
            address: Some("10.0.0.1".into()),
            connect: [("port", json!(22)), ("user", json!("admin"))].into(),
            vars: [("rack".to_owned(), json!("a"))].into_iter().collect(),
        },
    );
    let group = StarterGroup { hosts: (1..=3).map(|n| format!("web{n:02}")).collect(), ..StarterGroup::default() };
    let outer = StarterGroup {
        groups: vec!["web".into()],
        vars: [("x".to_owned(), json!({"a": [1, {"b": "c d"}]}))].into_iter().collect(),
        ..StarterGroup::default()
    };
    let groups =
        [("web".to_owned(), group), ("site".to_owned(), outer), ("none".to_owned(), StarterGroup::default())].into();
    let text = render_inventory(&StarterInventory { cluster: "lab".into(), hosts, groups }, Some("hosts.ini"));
    insta::assert_snapshot!(text);
    let project = load_inventory(&text);
    assert_eq!(project.groups["site"].len(), 3);
    assert_eq!(project.hosts[3].vars["rack"].value, json!("a"));
    assert_eq!(project.hosts[0].vars["x"].value, json!({"a": [1, {"b": "c d"}]}));
}

#[test]
fn starter_inventory_validates_with_its_recipe() {
    let starting =
        StarterInventory::from_typed_hosts("lab".into(), &["gpu[01:08]".into(), "admin@login:2222".into()]).unwrap();
    let text = render_inventory(&starting, None);
    insta::assert_snapshot!(text);
    assert_eq!(load_inventory(&text).hosts.len(), 9);
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z0-9 .:#'\"\\\\\\[\\]{},&*!|>%@`~-]{0,12}",
        "\\PC{0,8}",
        "(0[0-7]{1,3}|yes|off|~|null|1e3|0x1f|-|[0-9]{1,3}(\\.[0-9]{1,2})?|\n|a\nb|\t)"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_filter("variables are literal", |t| !t.contains("{{")
            && !t.contains("{%")
            && !t.contains("{#")
            && !t.contains(['\u{e000}', '\u{e001}']))
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z0-9 :#-]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn variable_values_round_trip(value in any_value()) {
        let text = render_inventory(&starting_with_vars([("x".to_owned(), value.clone())].into()), None);
        prop_assert_eq!(&load_inventory(&text).hosts[0].vars["x"].value, &value, "{}", text);
    }
}
