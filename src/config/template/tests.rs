//! Tests of templates: types, strictness, deferral, reads.

use super::*;
use crate::config::template::{FactSource, PendingInput, TemplateRoot, build_facts, build_tree};
use crate::facts::Facts;
use crate::probe::UnansweredReason;
use serde_json::json;
use std::collections::BTreeSet;

fn sample_bindings(facts_known: Option<&Facts>) -> TemplateBindings {
    TemplateBindings {
        params: Some(build_tree("params", &json!({"version": "560.10", "list": ["a", "b"], "on": true, "n": 3}))),
        vars: Some(build_tree("vars", &json!({"rack": {"row": "a"}}))),
        facts: Some(build_facts(facts_known.map_or(FactSource::NotYet, FactSource::Known))),
        ..TemplateBindings::default()
    }
}

fn sample_facts() -> Facts {
    let mut facts = Facts::default();
    facts.0.insert("os", Ok(json!({"id": "debian", "version": "12"})));
    facts.0.insert("gpus", Ok(json!([{"gsp": "off", "ecc": null}, {"gsp": "off", "ecc": "on"}])));
    facts.0.insert("nics", Ok(json!([])));
    facts.0.insert("clock", Err(UnansweredReason::new("timed out after 10 s")));
    facts
}

fn run_source(source: &str, form: TemplateForm, facts: Option<&Facts>) -> Result<EvalOutcome<Json>, String> {
    let program = TemplateProgram::compile(source, form).map_err(|e| e.message)?;
    if let Some(error) = program.name_errors().first() {
        return Err(format!("{} ({})", error.message, error.hint.clone().unwrap_or_default()));
    }
    program.run(&sample_bindings(facts)).map_err(|e| match e.hint {
        Some(hint) => format!("{} ({hint})", e.message),
        None => e.message,
    })
}

fn render_source(source: &str) -> Json {
    match run_source(source, TemplateForm::Template, Some(&sample_facts())) {
        Ok(EvalOutcome::Known { value, .. }) => value,
        other => panic!("{source}: {other:?}"),
    }
}

fn evaluation_error(source: &str) -> String {
    run_source(source, TemplateForm::Expression, Some(&sample_facts())).expect_err(source)
}

#[test]
fn a_sole_expression_keeps_its_type() {
    assert_eq!(render_source("{{ params.list }}"), json!(["a", "b"]));
    assert_eq!(render_source("{{ params.on }}"), json!(true));
    assert_eq!(render_source("{{- params.n -}}"), json!(3));
    assert_eq!(render_source("{{ params.version }}"), json!("560.10"));
    assert_eq!(render_source("v{{ params.version }}\n"), json!("v560.10\n"));
    assert_eq!(render_source("{{ params.n }}{{ params.n }}"), json!("33"));
}

#[test]
fn missing_names_are_errors_even_in_comparisons() {
    assert_eq!(
        evaluation_error("params.verison == \"1\""),
        "`params.verison` does not exist (did you mean `version`?)"
    );
    assert_eq!(evaluation_error("vars.rack.rwo == \"a\""), "`vars.rack.rwo` does not exist (did you mean `row`?)");
    assert_eq!(evaluation_error("facts.os.ids"), "`facts.os.ids` does not exist (did you mean `id`?)");
    assert_eq!(evaluation_error("parms.version"), "`parms` does not exist (did you mean `params`?)");
    assert_eq!(
        evaluation_error("version"),
        "`version` does not exist (use `params.version` for a parameter or `vars.version` for a variable)"
    );
    assert_eq!(evaluation_error("facts.os.id.kind != \"x\""), "`facts.os.id` is a single value and has no `kind`");
    assert_eq!(evaluation_error("vars.rack.row.x != \"x\""), "`vars.rack.row` is a single value and has no `x`");
    assert_eq!(render_source("{{ vars.rack.rwo | default('x') }}"), json!("x"));
    assert_eq!(render_source("{{ vars.rack.rwo is defined }}"), json!(false));
}

#[test]
fn unknown_filters_tests_and_calls_are_rejected() {
    assert_eq!(evaluation_error("params.list | lenght"), "unknown filter `lenght` (did you mean `length`?)");
    assert_eq!(evaluation_error("params.n is oddd"), "unknown test `oddd` (did you mean `odd`?)");
    assert_eq!(evaluation_error("now()"), "unknown function `now` ()");
    assert_eq!(evaluation_error("params.version.strip()"), "method calls are not supported (use a filter: `x | trim`)");
    for source in ["{% include 'x' %}", "{% import 'x' as y %}", "{% macro x() %}{% endmacro %}", "{% extends 'x' %}"] {
        assert!(TemplateProgram::compile(source, TemplateForm::Template).is_err(), "{source}");
    }
}

#[test]
fn custom_filters_return_the_expected_values() {
    assert_eq!(render_source("{{ 'a b' | quote }}"), json!("'a b'"));
    assert_eq!(render_source("{{ '/etc/x.conf' | basename }}{{ '/etc/x.conf' | dirname }}"), json!("x.conf/etc"));
    assert_eq!(
        render_source("{{ 'abc' | sha256 }}"),
        json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    );
    assert_eq!(render_source("{{ 'abc' | b64encode }}"), json!("YWJj"));
    assert_eq!(
        render_source(
            "{{ {'a': {'b': 1, 'c': 2}, 'd': 3} | merge({'a': {'c': none, 'e': ['x']}, 'd': {'f': params.n}}) }}"
        ),
        json!({"a": {"b": 1, "c": null, "e": ["x"]}, "d": {"f": 3}})
    );
    assert!(evaluation_error("{} | merge(params.version)").starts_with("`merge` requires maps, found string"));
    assert_eq!(render_source("{{ '5.15.0-9' | version_compare('5.15.0-10') }}"), json!(-1));
}

#[test]
fn expressions_defer_until_facts_are_known() {
    let expression = "facts.os.id == \"debian\"";
    assert_eq!(run_source(expression, TemplateForm::Expression, None), Ok(EvalOutcome::Deferred(PendingInput::Facts)));
    let reads = BTreeSet::from(["os.id".to_owned()]);
    assert_eq!(
        run_source(expression, TemplateForm::Expression, Some(&sample_facts())),
        Ok(EvalOutcome::Known { value: json!(true), reads })
    );
    // A missing value decides, too.
    assert_eq!(
        run_source("facts.os.nothing is defined", TemplateForm::Expression, Some(&sample_facts())),
        Ok(EvalOutcome::Known { value: json!(false), reads: BTreeSet::from(["os.nothing".to_owned()]) })
    );
    let need = PendingInput::UnknownFact { path: "clock".into(), why: "timed out after 10 s".into() };
    assert_eq!(
        run_source("facts.clock.synchronized", TemplateForm::Expression, Some(&sample_facts())),
        Ok(EvalOutcome::Deferred(need.clone()))
    );
    assert_eq!(
        run_source("facts.clock | default('x')", TemplateForm::Expression, Some(&sample_facts())),
        Ok(EvalOutcome::Deferred(need))
    );
    assert!(matches!(
        run_source("params.on or facts.os.id == 'x'", TemplateForm::Expression, None),
        Ok(EvalOutcome::Known { .. })
    ));
}

fn expect_source(source: &str) -> ExpectOutcome {
    TemplateProgram::compile(source, TemplateForm::Expression)
        .unwrap()
        .run_expectation(&sample_bindings(Some(&sample_facts())))
        .unwrap()
}

#[test]
fn expectation_over_an_empty_list_is_unknown() {
    let all_off = expect_source("facts.gpus | map(attribute='gsp') | unique | list == ['off']");
    assert_eq!(all_off, ExpectOutcome::Known { value: true, reads: BTreeSet::from(["gpus".into()]) });
    let why = |expect| match expect {
        ExpectOutcome::Unknown { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why(expect_source("facts.nics | map(attribute='state') | unique | list == ['up']")),
        "fact `nics` is an empty list"
    );
    let null_is_known = expect_source("facts.gpus | map(attribute='ecc') | unique | list == ['on']");
    assert_eq!(null_is_known, ExpectOutcome::Known { value: false, reads: BTreeSet::from(["gpus".into()]) });
    assert_eq!(why(expect_source("facts.clock.ok")), "fact `clock` is unknown: timed out after 10 s");
    assert_eq!(
        expect_source("facts.nics | length == 0"),
        ExpectOutcome::Known { value: true, reads: BTreeSet::from(["nics".into()]) }
    );
}

#[test]
fn unknown_part_of_a_fact_matters_only_where_it_is_read() {
    let mut facts = sample_facts();
    let gpus = json!([{"bdf": "a", "gsp": "off"}, {"bdf": "b", "gsp": {"unknown": "no NVIDIA driver is loaded"}}]);
    facts.0.insert("gpus", Ok(gpus));
    facts.0.insert("driver", Ok(json!({"loaded": null, "disk": {"unknown": "`modinfo` is missing"}})));
    let expect = |source: &str| {
        TemplateProgram::compile(source, TemplateForm::Expression)
            .expect("compiles")
            .run_expectation(&sample_bindings(Some(&facts)))
            .expect("runs")
    };
    let why = |source: &str| match expect(source) {
        ExpectOutcome::Unknown { why, .. } => why,
        other => panic!("{other:?}"),
    };
    let all_off = "facts.gpus | map(attribute='gsp') | unique | list == ['off']";
    assert_eq!(why(all_off), "fact `gpus[1].gsp` is unknown: no NVIDIA driver is loaded");
    assert_eq!(why("facts.driver.disk == '560.35.03'"), "fact `driver.disk` is unknown: `modinfo` is missing");
    assert!(matches!(
        expect("facts.gpus | map(attribute='bdf') | list == ['a', 'b']"),
        ExpectOutcome::Known { value: true, .. }
    ));
    assert!(matches!(expect("facts.driver.loaded is none"), ExpectOutcome::Known { value: true, .. }));
    assert_eq!(why("(facts.gpus | tojson) != ''"), "fact `gpus[1].gsp` is unknown: no NVIDIA driver is loaded");
    assert_eq!(why("(facts.driver | string) != ''"), "fact `driver.disk` is unknown: `modinfo` is missing");
}

#[test]
fn list_with_an_unknown_item_is_unknown() {
    let mut facts = sample_facts();
    facts.0.insert("gpus", Ok(json!([{"bdf": "a", "pfc": [true, {"unknown": "odd"}]}])));
    facts.0.insert("sm", Ok(json!([1, {"unknown": "late"}])));
    let why = |source: &str| {
        let program = TemplateProgram::compile(source, TemplateForm::Expression).expect("compiles");
        match program.run_expectation(&sample_bindings(Some(&facts))).expect("runs") {
            ExpectOutcome::Unknown { why, .. } => why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(why("facts.gpus[0].pfc[0]"), "fact `gpus[0].pfc` is unknown: odd");
    assert_eq!(why("facts.sm[0] == 1"), "fact `sm` is unknown: late");
}

#[test]
fn conditions_must_be_boolean() {
    let test = |source: &str| {
        TemplateProgram::compile(source, TemplateForm::Expression)
            .unwrap()
            .run_condition(&sample_bindings(None))
            .map_err(|e| e.message)
    };
    assert!(matches!(test("params.n > 2"), Ok(EvalOutcome::Known { value: true, .. })));
    assert_eq!(test("params.list").unwrap_err(), "a condition must be true or false, found a list");
    assert_eq!(test("params.version").unwrap_err(), "a condition must be true or false, found `560.10`");
}

#[test]
fn reads_are_recorded_with_their_source_range() {
    let source = "{% for x in params.list %}{{ x }}{{ recipes['nvidia-driver'].version }}{% endfor %}";
    let program = TemplateProgram::compile(source, TemplateForm::Template).unwrap();
    let reads: Vec<_> = program.reads().iter().map(|r| (r.root, r.path.join("/"), &source[r.range.clone()])).collect();
    assert_eq!(reads[0].0, TemplateRoot::Params);
    assert_eq!((reads[0].1.as_str(), reads[0].2), ("list", "params.list"));
    assert_eq!((reads[1].1.as_str(), reads[1].2), ("nvidia-driver/version", "recipes['nvidia-driver'].version"));
}

#[test]
fn endless_template_is_stopped() {
    let source = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
    let program = TemplateProgram::compile(source, TemplateForm::Template).unwrap();
    assert_eq!(program.run(&sample_bindings(None)).unwrap_err().message, "the template takes too long");
}
