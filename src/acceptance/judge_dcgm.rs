//! Judges `dcgmi diag -j`: which diagnostics failed, on which GPU, and which did not run.
//!
//! The program gives a verdict on each test of each GPU. A skipped test is not a pass: DCGM skips tests that it does not
//! support on a product, or whose plugin is missing, and still reports success (NVIDIA/DCGM#55).

use super::verdict::TestVerdict;
use serde_json::Value;

/// How many failed diagnostics a reason lists.
const LISTED_FAILURES: usize = 4;

/// Judges the output; `may_skip` names diagnostics that need not run.
pub fn judge_dcgm(output: &str, may_skip: &[&str]) -> TestVerdict {
    let Some(report) = read_report(output) else {
        return TestVerdict::not_measured("the output has no report of `dcgmi diag -j`");
    };
    if let Some(error) = report.get("runtime_error").and_then(Value::as_str) {
        return TestVerdict::not_measured(format!("the diagnostic did not run: {error}"));
    }
    let categories = report.get("test_categories").and_then(Value::as_array).into_iter().flatten();
    let tests = categories.flat_map(|category| category.get("tests").and_then(Value::as_array).into_iter().flatten());
    let results: Vec<DiagResult<'_>> = tests.flat_map(list_results).collect();
    let failed: Vec<String> = results.iter().filter(|result| result.is_failed()).map(DiagResult::describe).collect();
    if !failed.is_empty() {
        let more = failed.len().saturating_sub(LISTED_FAILURES);
        let listed = failed[..failed.len() - more].join("; ");
        let reason = if more == 0 { listed } else { format!("{listed}; {more} more") };
        return TestVerdict::Fail { value: None, reason };
    }
    if let Some(other) = results.iter().find(|result| !["Pass", "Skip"].contains(&result.status)) {
        let why = format!("`{}` has the result `{}`, which forge does not know", other.test, other.status);
        return TestVerdict::not_measured(why);
    }
    let skipped = collect_names(&results, |result| result.status == "Skip");
    let missing: Vec<&str> = skipped.iter().copied().filter(|name| !may_skip.contains(name)).collect();
    if !missing.is_empty() {
        return TestVerdict::not_measured(format!("skipped by DCGM: {}", missing.join(", ")));
    }
    match collect_names(&results, |result| result.status == "Pass").len() {
        0 => TestVerdict::not_measured("no diagnostic ran"),
        passed => {
            let rest = if skipped.is_empty() { String::new() } else { format!("; skipped: {}", skipped.join(", ")) };
            TestVerdict::Pass { value: passed as f64, expected: format!("all of them{rest}") }
        }
    }
}

/// Finds the report: DCGM 4 calls it `DCGM Diagnostic`, DCGM 3 `DCGM GPU Diagnostic`. Lines of text may surround it.
fn read_report(output: &str) -> Option<Value> {
    let (begin, end) = (output.find('{')?, output.rfind('}')?);
    let mut document: Value = serde_json::from_str(output.get(begin..=end)?).ok()?;
    ["DCGM Diagnostic", "DCGM GPU Diagnostic"].iter().find_map(|name| document.get_mut(*name).map(Value::take))
}

/// The result of a diagnostic on one GPU, or on the host.
struct DiagResult<'r> {
    test: &'r str,
    status: &'r str,
    entity: Option<String>,
    warning: Option<&'r str>,
}

fn list_results(test: &Value) -> Vec<DiagResult<'_>> {
    let name = test.get("name").and_then(Value::as_str).unwrap_or("unnamed");
    let results = test.get("results").and_then(Value::as_array).filter(|results| !results.is_empty());
    match results {
        Some(results) => results.iter().map(|result| read_result(name, result)).collect(),
        // A test without results of GPUs has a summary.
        None => vec![read_result(name, test.get("test_summary").unwrap_or(&Value::Null))],
    }
}

/// A result without a status has an empty one: it is not left out, because the others would pass without it.
fn read_result<'r>(test: &'r str, result: &'r Value) -> DiagResult<'r> {
    let group = result.get("entity_group").and_then(Value::as_str).unwrap_or("GPU");
    let number = result.get("entity_id").or_else(|| result.get("gpu_id"));
    let entity = number.map(|number| match number.as_str() {
        Some(text) => format!("{group} {text}"),
        None => format!("{group} {number}"),
    });
    DiagResult {
        test,
        status: result.get("status").and_then(Value::as_str).unwrap_or_default(),
        entity,
        warning: result.get("warnings").and_then(read_warning),
    }
}

/// DCGM 4 has a list of objects, DCGM 3 a text or a list.
fn read_warning(warnings: &Value) -> Option<&str> {
    let first = warnings.as_array().map_or(Some(warnings), |list| list.first())?;
    first.as_str().or_else(|| first.get("warning")?.as_str())
}

impl DiagResult<'_> {
    fn is_failed(&self) -> bool {
        ["Fail", "Warn"].contains(&self.status)
    }

    fn describe(&self) -> String {
        let verb = if self.status == "Warn" { "warned" } else { "failed" };
        let entity = self.entity.as_ref().map(|entity| format!(" on {entity}")).unwrap_or_default();
        let warning = self.warning.map(|text| format!(": {text}")).unwrap_or_default();
        format!("`{}` {verb}{entity}{warning}", self.test)
    }
}

fn collect_names<'r>(results: &[DiagResult<'r>], wanted: impl Fn(&DiagResult<'r>) -> bool) -> Vec<&'r str> {
    let mut names: Vec<&str> = results.iter().filter(|result| wanted(result)).map(|result| result.test).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIAG: &str = include_str!("../../tests/samples/dcgmi-diag-v4.json");
    const OLD: &str = include_str!("../../tests/samples/dcgmi-diag-v3.json");

    #[test]
    fn passed_diagnostics_are_counted_and_permitted_skips_are_named() {
        let passed = judge_dcgm(DIAG, &["eud"]);
        let expected = "all of them; skipped: eud".to_owned();
        assert_eq!(passed, TestVerdict::Pass { value: 3.0, expected });
        let reason = "skipped by DCGM: eud";
        assert_eq!(judge_dcgm(DIAG, &[]), TestVerdict::not_measured(reason), "a skipped diagnostic is not a pass");
    }

    #[test]
    fn failed_diagnostic_names_the_gpu_and_its_reason() {
        let failed = DIAG.replacen(
            "\"entity_id\": 1,\n                \"status\": \"Pass\"",
            "\"entity_id\": 1,\n                \"status\": \"Fail\", \"warnings\": [{\"warning\": \"Persistence mode for GPU 1 is disabled.\", \"error_id\": 24}]",
            1,
        );
        let reason = "`software` failed on GPU 1: Persistence mode for GPU 1 is disabled.".to_owned();
        assert_eq!(judge_dcgm(&failed, &["eud"]), TestVerdict::Fail { value: None, reason });
    }

    #[test]
    fn reports_of_version_3_are_read() {
        let reason = "`Persistence Mode` failed; `Environment Variables` warned".to_owned();
        assert_eq!(judge_dcgm(OLD, &[]), TestVerdict::Fail { value: None, reason });
        let good = OLD.replace("\"Fail\"", "\"Pass\"").replace("\"Warn\"", "\"Pass\"");
        assert_eq!(judge_dcgm(&good, &[]).value(), Some(9.0));
    }

    #[test]
    fn result_that_is_not_known_is_neither_passed_nor_failed() {
        let other = OLD.replace("\"Fail\"", "\"Not Run\"").replace("\"Warn\"", "\"Pass\"");
        let why = "`Persistence Mode` has the result `Not Run`, which forge does not know";
        assert_eq!(judge_dcgm(&other, &[]), TestVerdict::not_measured(why));
        let none = r#"{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory", "results": [{}]}]}]}}"#;
        let why = "`memory` has the result ``, which forge does not know";
        assert_eq!(judge_dcgm(none, &[]), TestVerdict::not_measured(why));
    }

    #[test]
    fn output_without_results_is_not_measured() {
        let missing = "the output has no report of `dcgmi diag -j`";
        assert_eq!(judge_dcgm("Error: unable to connect to host engine", &[]), TestVerdict::not_measured(missing));
        assert_eq!(judge_dcgm("{}", &[]), TestVerdict::not_measured(missing));
        let broken = "{\"DCGM Diagnostic\": {\"runtime_error\": \"no GPU\"}}";
        assert_eq!(judge_dcgm(broken, &[]), TestVerdict::not_measured("the diagnostic did not run: no GPU"));
        let empty = "{\"DCGM Diagnostic\": {\"test_categories\": []}}";
        assert_eq!(judge_dcgm(empty, &[]), TestVerdict::not_measured("no diagnostic ran"));
    }
}
