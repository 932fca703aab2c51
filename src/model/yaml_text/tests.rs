//! Written values are read back unchanged, and text that a reader would take for another type is quoted.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn parse_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn block_style_is_readable() {
    let object = json!({ "kind": "ConfigMap", "data": { "a": "1", "b": "x\n\ny\n", "on": "off" }, "list": [{ "name": "a", "ports": [80] }, "b", [1, []]], "none": {}, "url": "http://a:80/?b=[c]", "long": "word ".repeat(30) + "end" });
    insta::assert_snapshot!(render_yaml_block(&object));
}

#[test]
fn text_of_other_types_is_quoted() {
    for text in [
        "on",
        "Off",
        "yes",
        "NO",
        "y",
        "N",
        "true",
        "null",
        "Null",
        "~",
        "",
        "<<",
        "=",
        "1",
        "-1",
        "1e3",
        "1.5",
        ".5",
        "0x10",
        "0o17",
        "0b1",
        "012",
        "1_000",
        "1:30",
        "1:30.5",
        ".inf",
        ".NaN",
        "2026-11-24",
        "2026-11-24T01:02:03Z",
        "10.0.0.1",
        " a",
        "a ",
        "a: b",
        "a #b",
        "- a",
        "? a",
        "#a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "[a",
        "{a",
        "\"a",
        "'a",
        "---",
        "...",
        "a:",
        "\t",
        "a\u{85}b",
        "a\u{0}b",
        "a\u{1b}b",
        "a\u{2028}b",
        "\u{feff}a",
        "a\r\nb",
    ] {
        let line = render_yaml_line(&text.into());
        assert!(line.starts_with('"') && line.ends_with('"'), "{text:?}: {line}");
        assert_eq!(parse_yaml(&line), text);
        let block = render_yaml_block(&json!({ text: text }));
        assert!(block.starts_with('"'), "{text:?}: {block}");
        assert_eq!(parse_yaml(&block), json!({ text: text }));
    }
    for text in
        ["a", "a b", "a-b", "/etc/motd", "~/.ssh/id", "http://a:80", "x:1", "a,b", "web[01:03]", "1.2.3-4.el9", "é"]
    {
        assert_eq!(render_yaml_line(&text.into()), text);
    }
}

#[test]
fn block_preserves_lines_and_blanks_of_text() {
    for text in ["a\nb", "a\nb\n", "a\n\n\n", "\n", "\n\n", " a\n  b\n", "a \n b", "\na", "\ta\nb", "a\n\t\n"] {
        let value = json!({ "list": [{ "text": text, "next": 1 }, text] });
        assert_eq!(parse_yaml(&render_yaml_block(&value)), value, "{text:?}");
        assert!(!render_yaml_line(&text.into()).contains('\n'), "{text:?}");
    }
}

/// Returns text that readers treat specially.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c0-9_ .:#'\"\\\\\\[\\]{},&*!|>%@`~?=<+eExo\\n\\t-]{0,10}",
        "\\PC{0,8}",
        any::<String>(),
        "(0[0-7]{1,3}|yes|Off|y|~|null|1e3|0x1f|-|<<|[0-9]{1,3}([.:][0-9]{1,2})?|2026-1-1|\n|a\n b\n\n)"
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any_text(), inner), 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn written_values_are_read_back_unchanged(value in any_value()) {
        let block = render_yaml_block(&value);
        let read = parse_yaml(&block);
        prop_assert_eq!(&read, &value, "{}", block);
        prop_assert_eq!(read.to_string(), value.to_string(), "the order of keys");
    }

    #[test]
    fn written_text_is_one_line_that_is_read_back_unchanged(text in any_text()) {
        let line = render_yaml_line(&text.as_str().into());
        prop_assert!(!line.contains('\n'), "{}", line);
        prop_assert_eq!(parse_yaml(&line), text, "{}", line);
    }
}
