//! Tests of limits: templates that grow, nest or take too long end with an error, quickly and without much memory.

use super::super::eval_budget::ProjectUsage;
use super::super::{EvalOutcome, TemplateBindings, build_tree};
use super::{TemplateForm, TemplateProgram};
use crate::config::cpu_time::thread_cpu_time;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const TOO_LARGE: &str = "the template creates a value larger than 16 MiB";
const TOO_LONG: &str = "the template takes too long";
const LEVELS: &str = "the template creates a value with more than 128 levels";
const NESTED: &str = "the template nests deeper than 200 levels";
const LITERALS: &str = "literals expand to more than 1 MiB of text";
const NAMESPACE: &str = "a namespace cannot be part of a value";

/// Time limit of a case in an unoptimised build. On an idle machine the longest case takes half of it. Hyper-threads
/// that share a core with other work count more processor time for the same work.
const SOON: Duration = Duration::from_secs(4);

fn limit_bindings() -> TemplateBindings {
    let text = "x".repeat(1000);
    let names: Vec<String> = (0..1000).map(|at| format!("n{at}")).collect();
    let vars = json!({ "text": text, "list": ["a", "b"], "n": 7, "names": names });
    TemplateBindings { vars: Some(build_tree("vars", &vars)), ..TemplateBindings::default() }
}

fn run_template(source: &str) -> Result<serde_json::Value, String> {
    let program = TemplateProgram::compile(source, TemplateForm::Template).map_err(|error| error.message)?;
    match program.run(&limit_bindings()) {
        Ok(EvalOutcome::Known { value, .. }) => Ok(value),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.message),
    }
}

fn build_loop(times: usize, start: &str, step: &str) -> String {
    let bare = format!("{{% set ns = namespace(a={start}) %}}{{% for i in range({times}) %}}{step}{{% endfor %}}");
    bare + "{{ ns.a | length }}"
}

#[test]
fn growing_values_stop_within_time_and_memory_limits() {
    let set = |value: &str| format!("{{% set ns.a = {value} %}}");
    let cases = [
        (build_loop(60, "'xx'", &set("ns.a ~ ns.a")), TOO_LARGE),
        (build_loop(60, "'xx'", &set("ns.a + ns.a")), TOO_LARGE),
        (build_loop(60, "'xx'", &set("ns.a * 2")), TOO_LARGE),
        (build_loop(60, "'xx'", &set("ns.a | replace('', ns.a)")), TOO_LARGE),
        (build_loop(60, "'xx'", &set("ns.a | join(ns.a)")), TOO_LARGE),
        (build_loop(60, "'xx'", &set("[ns.a, ns.a]")), TOO_LARGE),
        (build_loop(60, "['x']", &set("ns.a + ns.a")), TOO_LARGE),
        (build_loop(60, "['x']", &set("ns.a * 2")), TOO_LARGE),
        (build_loop(60, "['x']", &set("(ns.a, ns.a)")), TOO_LARGE),
        (build_loop(60, "['x']", &set("{'a': ns.a, 'b': ns.a}")), TOO_LARGE),
        (build_loop(60, "['x']", &set("ns.a | chain(ns.a)")), TOO_LARGE),
        (build_loop(60, "'xx'", "{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}"), TOO_LARGE),
        (build_loop(100_000, "[]", &set("[ns.a]")), LEVELS),
        (build_loop(100_000, "[1, 2, 3]", &set("ns.a[0:]")), "3"),
        (build_loop(10, "1", &set("ns")), NAMESPACE),
        (build_loop(10, "1", &set("[ns]")), NAMESPACE),
        (build_loop(100_000, "''", &set("ns.a ~ 'a line of text that is gathered' ")), TOO_LONG),
        ("{{ vars.text | indent(2000000000) }}".into(), TOO_LARGE),
        ("{{ 'a\nb' | indent(2000000000) }}".into(), TOO_LARGE),
        ("{{ 'a\nb' | indent(width=2000000000) }}".into(), TOO_LARGE),
        ("{{ vars.list | map('indent', 2000000000) | list }}".into(), TOO_LARGE),
        ("{{ vars.text * 2000000000 }}".into(), TOO_LARGE),
        ("{{ vars.list * 90000000 }}".into(), TOO_LARGE),
        ("{{ 'x' * 100000000 }}".into(), LITERALS),
        ("{{ 'x' * (10 ** 9) }}".into(), LITERALS),
        (format!("{{{{ {} }}}}", ["'x' * 1000000"; 3].join(" ~ ")), LITERALS),
        ("{{ vars.list | batch(2000000000, 0) }}".into(), TOO_LARGE),
        ("{{ vars.list | slice(2000000000) }}".into(), TOO_LARGE),
        ("{{ vars.list | tojson(indent=2000000000) }}".into(), TOO_LARGE),
        ("{{ '%2000000000d' | format(1) }}".into(), TOO_LARGE),
        ("{{ '%*d' | format(2000000000, 1) }}".into(), TOO_LARGE),
        ("{{ '%.2000000000f' | format(1.5) }}".into(), TOO_LARGE),
        ("{{ range(1000000000) | list | length }}".into(), "range has too many elements"),
        ("{% for i in range(90000) %}{{ vars.text }}{% endfor %}".into(), TOO_LARGE),
        (format!("{{% for i in range(90000) %}}{}{{% endfor %}}", "y".repeat(10_000)), TOO_LONG),
        (
            format!("{{% set a %}}{{% for i in range(90000) %}}{}{{% endfor %}}{{% endset %}}", "y".repeat(10_000)),
            TOO_LONG,
        ),
        ("{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}".into(), TOO_LONG),
        ("{{ range(90000) | map('string') | sum(start='') | length }}".into(), TOO_LONG),
    ];
    let mut wrong = Vec::new();
    for (source, expected) in cases {
        let begun = thread_cpu_time();
        let mut result = Ok(json!(null));
        let used = allocation_counter::measure(|| result = run_template(&source));
        let shown: String = source.chars().take(160).collect();
        match &result {
            Ok(value) if value.as_str().map_or_else(|| value.to_string(), str::to_owned) == expected => {}
            Err(why) if why.contains(expected) => {}
            other => wrong.push(format!("{shown}: {other:?}")),
        }
        let took = thread_cpu_time().saturating_sub(begun);
        if used.bytes_max > 400 << 20 || took > SOON {
            wrong.push(format!("{shown}: {took:?}, {} bytes", used.bytes_max));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn deeply_nested_templates_are_rejected_before_compiling() {
    let chain = |operand: &str, times: usize| format!("{{{{ 1{} }}}}", operand.repeat(times));
    let block = |open: &str, close: &str| format!("{}x{}", open.repeat(20_000), close.repeat(20_000));
    let cases = [
        chain(" | string", 20_000),
        chain(" + 1", 20_000),
        chain(" ~ 1", 20_000),
        chain(" and 1", 20_000),
        chain(" if 1 else 1", 20_000),
        chain(".a", 20_000),
        chain("[0]", 20_000),
        chain(" is string", 20_000),
        chain(" == 1", 20_000),
        format!("{{{{ {}1 }}}}", "not ".repeat(20_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(20_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(20_000), "]".repeat(20_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(20_000), "+1)".repeat(20_000)),
        block("{% if 1 %}", "{% endif %}"),
        block("{% for i in [1] %}", "{% endfor %}"),
        block("{% with %}", "{% endwith %}"),
        block("{% set a %}", "{% endset %}"),
        block("{% filter upper %}", "{% endfilter %}"),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(20_000)),
    ];
    for source in cases {
        let shown: String = source.chars().take(60).collect();
        let begun = thread_cpu_time();
        let error = TemplateProgram::compile(&source, TemplateForm::Template).expect_err(&shown);
        assert_eq!(error.message, NESTED, "{shown}");
        assert!(error.range.is_some() && error.hint.is_some(), "{shown}");
        let took = thread_cpu_time().saturating_sub(begun);
        assert!(took < SOON, "{shown}: {took:?}");
    }
}

#[test]
fn long_flat_templates_compile() {
    let list = format!("{{{{ [{}] | length }}}}", vec!["vars.n + 1"; 2000].join(", "));
    assert_eq!(run_template(&list), Ok(json!(2000)));
    assert_eq!(run_template(&"{{ vars.n }}".repeat(2000)), Ok(json!("7".repeat(2000))));
    let sets = "{% set a = vars.n %}{% if a %}{{ a }}{% endif %}".repeat(1000);
    assert_eq!(run_template(&sets), Ok(json!("7".repeat(1000))));
    let blocks = "{% set a %}{{ vars.n }}{% endset %}{{ a }}".repeat(1000);
    assert_eq!(run_template(&blocks), Ok(json!("7".repeat(1000))));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(40), "+1)".repeat(40));
    assert_eq!(run_template(&deep), Ok(json!(41)));
}

#[test]
fn typical_templates_stay_within_the_limits() {
    let names = "{% for name in vars.names if name in vars.names %}{{ name }}\n{% endfor %}";
    assert_eq!(run_template(names).map(|text| text.as_str().map(|text| text.lines().count())), Ok(Some(1000)));
    assert_eq!(run_template(&build_loop(1000, "[]", "{% set ns.a = ns.a + [i] %}")), Ok(json!("1000")));
    assert_eq!(run_template("{{ '-' * 40 }}"), Ok(json!("-".repeat(40))));
    assert_eq!(run_template("{{ vars.text | indent(4) | length }}"), Ok(json!(1000)));
    assert_eq!(run_template("{{ '%05d' | format(vars.n) }}"), Ok(json!("00007")));
}

#[test]
fn project_time_limit_covers_all_its_templates() {
    let gathers = build_loop(50_000, "''", "{% set ns.a = ns.a ~ 'a line of text that is gathered' %}");
    // Creates no values and stays within the step limit of one evaluation.
    let turns = build_loop(90_000, "'x'", "");
    for (source, expected) in [(gathers, Err(TOO_LONG.to_owned())), (turns, Ok(json!("1")))] {
        let usage = Arc::new(ProjectUsage::with_bytes_left(1 << 20));
        let run = || {
            let program =
                TemplateProgram::compile_with_usage(&source, TemplateForm::Template, &usage).expect("a template");
            match program.run(&limit_bindings()) {
                Ok(EvalOutcome::Known { value, .. }) => Ok(value),
                Ok(other) => Err(format!("{other:?}")),
                Err(error) => Err(error.message),
            }
        };
        assert_eq!(run(), expected);
        assert_eq!(run(), Err("the templates of the project take too long in total".to_owned()));
    }
}
