//! Tests of secrets in templates: they are passed on, and whatever would read them is an error.

use super::*;
use crate::config::template::build_tree;
use serde_json::json;
use std::collections::BTreeSet;

fn sample_secrets() -> (TemplateBindings, String) {
    let mut store = SecretStore::default();
    let token = store.insert("TOKEN", secrecy::SecretString::from("abc".to_owned())).0;
    let params = json!({
        "token": token, "user": "u", "none": null, "tokens": [token], "empty": [],
        "by_name": { "a": token, "b": "plain" },
        "logins": [{ "name": "b", "password": token }, { "name": "a", "password": token }],
    });
    (TemplateBindings { params: Some(build_tree("params", &params)), ..TemplateBindings::default() }, token)
}

fn evaluate(source: &str, form: TemplateForm) -> Result<Json, TemplateError> {
    match TemplateProgram::compile(source, form)?.run(&sample_secrets().0)? {
        EvalOutcome::Known { value, reads } => {
            assert_eq!(reads, BTreeSet::new());
            Ok(value)
        }
        EvalOutcome::Deferred(need) => panic!("{source}: {need:?}"),
    }
}

#[test]
fn secrets_are_passed_on() {
    let token = sample_secrets().1;
    for (source, value) in [
        ("params.token", json!(token)),
        ("'Bearer ' ~ params.token", json!(format!("Bearer {token}"))),
        ("params.token + '!'", json!(format!("{token}!"))),
        ("params.token if params.user == 'u' else ''", json!(token)),
        ("params.token | default('x')", json!(token)),
        ("[params.user, params.token] | join(':')", json!(format!("u:{token}"))),
        ("params.logins | map(attribute='password') | join(',')", json!(format!("{token},{token}"))),
        ("params.logins | sort(attribute='name') | first", json!({ "name": "a", "password": token })),
        ("params.logins | selectattr('name', 'equalto', 'a') | list", json!([{ "name": "a", "password": token }])),
        ("params.logins | groupby('name') | length", json!(2)),
        ("'p=@' | replace('@', params.token)", json!(format!("p={token}"))),
        ("params.by_name.a", json!(token)),
        ("params.by_name['a'] | string", json!(token)),
        ("params.by_name | merge({ 'b': 'c' })", json!({ "a": token, "b": "c" })),
        ("params.tokens", json!([token])),
    ] {
        assert_eq!(evaluate(source, TemplateForm::Expression).unwrap(), value, "{source}");
    }
    let source = "{% for login in params.logins %}{{ login.name }}={{ login.password }}\n{% endfor %}";
    let text = json!(format!("b={token}\na={token}\n"));
    assert_eq!(evaluate(source, TemplateForm::Template).unwrap(), text);
}

#[test]
fn conditions_that_do_not_depend_on_a_secret_are_evaluated() {
    for (source, value) in [
        ("params.token is defined and params.token is string", true),
        ("params.token is none", false),
        ("params.token == none or params.token is undefined", false),
        ("params.none != none", false),
        ("params.tokens | length > 0", true),
        ("params.tokens == []", false),
        ("params.empty == params.tokens", false),
        // A secret is never empty.
        ("params.token != '' and params.token ~ '' != ''", true),
        ("not params.token", false),
        ("true if params.token else false", true),
        ("params.tokens | select | length == 1", true),
        ("params.token | default('x', true) is string", true),
        ("'a' in params.by_name", true),
        ("'token' in params", true),
        ("params.by_name | list == ['a', 'b']", true),
        ("params.by_name.b == 'plain'", true),
    ] {
        assert_eq!(evaluate(source, TemplateForm::Expression).unwrap(), json!(value), "{source}");
    }
}

#[test]
fn expression_that_reads_a_secret_is_an_error() {
    let compared = "a secret cannot be compared: templates do not know its value";
    let searched = "`in` cannot be used with a secret: templates do not know its value";
    let split = "a secret has no parts: templates do not know its value";
    let key = "a secret cannot be a key: templates do not know its value";
    for (source, message) in [
        ("params.token == 'abc'", compared),
        ("params.token != params.token", compared),
        ("'x' ~ params.token == 'xabc'", compared),
        ("params.token < 'b'", compared),
        ("'a' < params.token < 'b'", compared),
        ("params.tokens == ['abc']", compared),
        ("params.by_name == { 'a': 'abc', 'b': 'plain' }", compared),
        ("params.token in ['abc']", searched),
        ("'abc' in params.tokens", searched),
        ("'a' not in params.token", searched),
        ("params.token[1:]", split),
        ("params.token[0]", split),
        ("{ 'abc': 1 }[params.token]", key),
        ("params.tokens | select('equalto', 'abc') | list", compared),
        ("params.logins | selectattr('password', 'eq', 'abc') | list", compared),
    ] {
        let error = evaluate(source, TemplateForm::Expression).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.hint.as_deref()),
            (message, Some(secret_guard::SECRET_HINT)),
            "{source}"
        );
    }
}

#[test]
fn filter_or_test_that_reads_a_secret_is_an_error() {
    for (source, name) in [
        ("params.token | length", "length"),
        ("params.token | list", "list"),
        ("params.token | first", "first"),
        ("params.token | upper", "upper"),
        ("params.token | sort | length", "sort"),
        ("params.token | max", "max"),
        ("params.token | unique | list", "unique"),
        ("params.token | trim", "trim"),
        ("params.token | int", "int"),
        ("params.token | b64encode", "b64encode"),
        ("params.token | sha256", "sha256"),
        ("params.token | quote", "quote"),
        ("params.token | replace('a', 'b')", "replace"),
        ("params.token | join(',')", "join"),
        ("params.by_name | tojson", "tojson"),
        ("params.tokens | map('upper') | list", "upper"),
        ("params.tokens | unique", "unique"),
        ("params.logins | sort(attribute='password')", "sort"),
        ("params.logins | groupby('password')", "groupby"),
        ("params.by_name | dictsort(by='value')", "dictsort"),
        ("'%5s' | format(params.token)", "format"),
    ] {
        let message = format!("the filter `{name}` does not accept secrets: templates do not know their values");
        assert_eq!(evaluate(source, TemplateForm::Expression).unwrap_err().message, message, "{source}");
    }
    for (source, name) in [("params.token is startingwith 'a'", "startingwith"), ("params.token is lower", "lower")] {
        let message = format!("the test `{name}` does not accept secrets: templates do not know their values");
        assert_eq!(evaluate(source, TemplateForm::Expression).unwrap_err().message, message, "{source}");
    }
}

#[test]
fn statement_that_reads_a_secret_is_an_error() {
    let written = "a list or map with a secret cannot be written as text";
    let split = "a secret has no parts: templates do not know its value";
    for (source, message) in [
        ("{% if params.token == 'abc' %}a{% endif %}!", "a secret cannot be compared: templates do not know its value"),
        ("{% for letter in params.token %}{{ letter }}{% endfor %}", split),
        ("{% set a, b = params.token %}{{ a }}!", split),
        (
            "{% for token in params.tokens %}{{ loop.changed(token) }}{% endfor %}",
            "`loop.changed` does not accept secrets: templates do not know their values",
        ),
        ("x={{ params.by_name }}", written),
        ("{{ 'x' ~ params.tokens }}", written),
        ("{{ params.tokens | string }}!", written),
        ("{{ [params.tokens] | join }}!", written),
    ] {
        assert_eq!(evaluate(source, TemplateForm::Template).unwrap_err().message, message, "{source}");
    }
}

#[test]
fn secret_is_not_a_condition() {
    let program = TemplateProgram::compile("params.token", TemplateForm::Expression).unwrap();
    let error = program.run_condition(&sample_secrets().0).unwrap_err();
    assert_eq!(error.message, "a secret is not a condition: templates do not know its value");
    assert_eq!(error.hint.as_deref(), Some(secret_guard::SECRET_HINT));
    let program = TemplateProgram::compile("params.token == 'abc'", TemplateForm::Expression).unwrap();
    assert!(program.run_expectation(&sample_secrets().0).is_err(), "no expectation reads a secret");
}
