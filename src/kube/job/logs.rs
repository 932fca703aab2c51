//! Logs of pods: required patterns, forbidden patterns, and the last lines for people.

use crate::kube::ClusterApi;
use crate::kube::request_error::ApiRequestError;
use crate::model::Value;
use crate::object::{JobCall, JobLogRules};
use regex::Regex;

/// The log of one container.
#[derive(Debug)]
pub(super) struct ContainerLog {
    pub pod: String,
    pub container: String,
    /// The log, or why it could not be read.
    pub text: Result<String, String>,
}

impl ClusterApi {
    /// Reads the logs of all containers of the pods.
    pub(super) async fn read_pod_logs(&self, pods: &[Value]) -> Vec<ContainerLog> {
        let mut all = Vec::new();
        for pod in pods {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            for container in pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten() {
                let container = text(&container["name"]);
                let said = self.read_container_log(&namespace, &name, &container).await;
                all.push(ContainerLog {
                    pod: name.clone(),
                    container,
                    text: said.map_err(|refusal| log_error_text(&refusal)),
                });
            }
        }
        all
    }
}

fn log_error_text(refusal: &ApiRequestError) -> String {
    refusal.api_message()
}

/// Returns why the logs do not meet the requirements.
pub(super) fn find_log_mismatch(call: &JobCall, printed: &[ContainerLog]) -> Option<String> {
    let JobLogRules { expect, deny, each, .. } = &call.logs;
    if expect.is_empty() && deny.is_empty() {
        return None;
    }
    if printed.is_empty() {
        return Some("no pod is left whose log could be read".to_owned());
    }
    if let Some((one, why)) = printed.iter().find_map(|one| Some((one, one.text.as_ref().err()?))) {
        return Some(format!("log of pod {} cannot be read: {why}", one.pod));
    }
    let has = |one: &ContainerLog, pattern: &Regex| one.text.as_ref().is_ok_and(|text| pattern.is_match(text));
    for text in deny {
        let Ok(pattern) = compile_pattern(text) else { return Some(invalid_pattern_message(text)) };
        if let Some(one) = printed.iter().find(|one| has(one, &pattern)) {
            return Some(format!("log of pod {} matches the denied `{text}`", one.pod));
        }
    }
    for text in expect {
        let Ok(pattern) = compile_pattern(text) else { return Some(invalid_pattern_message(text)) };
        let lacking: Vec<&str> = printed.iter().filter(|one| !has(one, &pattern)).map(|one| one.pod.as_str()).collect();
        match (each, lacking.as_slice()) {
            (true, [first, rest @ ..]) => {
                let more = if rest.is_empty() { String::new() } else { format!(" and of {} more", rest.len()) };
                return Some(format!("`{text}` not found in the log of pod {first}{more}"));
            }
            (false, all) if all.len() == printed.len() => return Some(format!("`{text}` not found in any pod's log")),
            _ => {}
        }
    }
    None
}

fn invalid_pattern_message(text: &str) -> String {
    format!("invalid regular expression `{text}`")
}

/// Compiles a pattern for single lines: `^` and `$` match at line ends.
pub(super) fn compile_pattern(text: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(text).multi_line(true).build()
}

/// Returns the last lines of each log, with a header.
pub(super) fn format_log_tails(printed: &[ContainerLog], lines: usize) -> String {
    let mut told = String::new();
    for one in printed {
        told.push_str(&format!("pod {}, container {}:\n", one.pod, one.container));
        match &one.text {
            Ok(text) if text.trim().is_empty() => told.push_str("  (empty log)\n"),
            Ok(text) => {
                let all: Vec<&str> = text.lines().collect();
                all[all.len().saturating_sub(lines)..].iter().for_each(|line| told.push_str(&format!("  {line}\n")));
            }
            Err(why) => told.push_str(&format!("  log not available: {why}\n")),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectId;
    use crate::object::{JobEndPredicates, JobGoal, StatusPredicate};

    fn call(expect: &[&str], deny: &[&str], each: bool) -> JobCall {
        let sign = StatusPredicate::Condition("Complete".to_owned());
        let own = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        JobCall {
            id: ObjectId {
                api_version: "batch/v1".into(),
                kind: "Job".into(),
                namespace: Some("n".into()),
                name: "a".into(),
            },
            object: Value::Null,
            digest: String::new(),
            aim: JobGoal::Ends { signs: JobEndPredicates { succeeded: sign.clone(), failed: sign }, within_s: 60 },
            logs: JobLogRules { expect: own(expect), deny: own(deny), each, tail: 2 },
        }
    }

    fn sample_logs(texts: &[&str]) -> Vec<ContainerLog> {
        let one = |(at, text): (usize, &&str)| ContainerLog {
            pod: format!("p{at}"),
            container: "c".to_owned(),
            text: Ok((*text).to_owned()),
        };
        texts.iter().enumerate().map(one).collect()
    }

    #[test]
    fn log_rules_check_expected_and_denied_text_of_each_rank() {
        let ranks = sample_logs(&["x NCCL INFO Using network IB\n", "NCCL INFO Using network Socket\n", "nothing"]);
        let told = |expect: &[&str], deny: &[&str], each| find_log_mismatch(&call(expect, deny, each), &ranks);
        assert_eq!(
            told(&["Using network IB"], &[], true).unwrap(),
            "`Using network IB` not found in the log of pod p1 and of 1 more"
        );
        assert_eq!(told(&["Using network IB"], &[], false), None);
        assert_eq!(told(&["GDRDMA"], &[], false).unwrap(), "`GDRDMA` not found in any pod's log");
        let denied = "log of pod p1 matches the denied `Using network Socket$`";
        assert_eq!(told(&[], &["Using network Socket$"], true).unwrap(), denied);
        assert_eq!(told(&[], &["^Using"], true), None);
    }

    #[test]
    fn unreadable_log_is_a_mismatch() {
        let mut ranks = sample_logs(&["Using network IB"]);
        ranks.push(ContainerLog { pod: "p9".into(), container: "c".into(), text: Err("no kubelet".into()) });
        let why = find_log_mismatch(&call(&[], &["Socket"], true), &ranks);
        assert_eq!(why.unwrap(), "log of pod p9 cannot be read: no kubelet");
        assert_eq!(find_log_mismatch(&call(&["a"], &[], true), &[]).unwrap(), "no pod is left whose log could be read");
        assert_eq!(find_log_mismatch(&call(&[], &[], true), &[]), None);
    }

    #[test]
    fn log_tails_show_the_last_lines() {
        assert_eq!(format_log_tails(&sample_logs(&["1\n2\n3\n"]), 2), "pod p0, container c:\n  2\n  3\n");
        assert_eq!(format_log_tails(&sample_logs(&["\n"]), 2), "pod p0, container c:\n  (empty log)\n");
    }
}
