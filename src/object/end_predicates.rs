//! Fields of a workload that show whether it succeeded or failed.

use super::is_condition_true;
use crate::model::Value;

/// A check on an object.
#[derive(Clone, Debug, PartialEq)]
pub enum StatusPredicate {
    /// A condition of its status is `True`.
    Condition(String),
    /// The value at a JSON pointer is one of these.
    Value {
        /// The JSON pointer to a text in the object, such as `/status/phase`.
        pointer: String,
        /// The texts of which any one satisfies the check.
        is: Vec<String>,
    },
}

/// The checks for success and for failure.
#[derive(Clone, Debug, PartialEq)]
pub struct JobEndPredicates {
    /// Holds once the workload has succeeded.
    pub succeeded: StatusPredicate,
    /// Holds once the workload has failed.
    pub failed: StatusPredicate,
}

impl StatusPredicate {
    /// Reports whether the check holds for an object. A condition or value that the object lacks does not hold.
    pub fn matches_object(&self, object: &Value) -> bool {
        match self {
            Self::Condition(name) => is_condition_true(object, name),
            Self::Value { pointer, is } => {
                object.pointer(pointer).and_then(Value::as_str).is_some_and(|found| is.iter().any(|one| one == found))
            }
        }
    }
}

impl JobEndPredicates {
    /// Returns the checks of a known kind.
    pub fn for_kind(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let conditions = |good: &str, bad: &str| Self {
            succeeded: StatusPredicate::Condition(good.to_owned()),
            failed: StatusPredicate::Condition(bad.to_owned()),
        };
        let values = |pointer: &str, good: &[&str], bad: &[&str]| {
            let sign = |is: &[&str]| StatusPredicate::Value {
                pointer: pointer.to_owned(),
                is: is.iter().map(|one| (*one).to_owned()).collect(),
            };
            Self { succeeded: sign(good), failed: sign(bad) }
        };
        Some(match (group, kind) {
            ("", "Pod") => values("/status/phase", &["Succeeded"], &["Failed"]),
            ("batch", "Job") => conditions("Complete", "Failed"),
            ("batch.volcano.sh", "Job") => {
                values("/status/state/phase", &["Completed"], &["Failed", "Aborted", "Terminated"])
            }
            ("kubeflow.org", "PyTorchJob" | "MPIJob" | "TFJob" | "XGBoostJob" | "PaddleJob" | "JAXJob") => {
                conditions("Succeeded", "Failed")
            }
            ("trainer.kubeflow.org", "TrainJob") => conditions("Complete", "Failed"),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn end_of_each_known_job_kind_is_detected() {
        let done = |name: &str| json!({ "status": { "conditions": [{ "type": name, "status": "True" }] } });
        let state = |phase: &str| json!({ "status": { "state": { "phase": phase } } });
        let pod = |phase: &str| json!({ "status": { "phase": phase } });
        let cases = [
            ("batch/v1", "Job", done("Complete"), done("Failed"), done("Suspended")),
            ("batch.volcano.sh/v1alpha1", "Job", state("Completed"), state("Aborted"), state("Running")),
            ("kubeflow.org/v1", "PyTorchJob", done("Succeeded"), done("Failed"), done("Running")),
            ("trainer.kubeflow.org/v1alpha1", "TrainJob", done("Complete"), done("Failed"), json!({})),
            ("v1", "Pod", pod("Succeeded"), pod("Failed"), pod("Pending")),
        ];
        for (version, kind, good, bad, neither) in cases {
            let signs = JobEndPredicates::for_kind(version, kind).unwrap();
            let told = |object: &Value| (signs.succeeded.matches_object(object), signs.failed.matches_object(object));
            assert_eq!(
                [told(&good), told(&bad), told(&neither)],
                [(true, false), (false, true), (false, false)],
                "{kind}"
            );
        }
        assert_eq!(JobEndPredicates::for_kind("example.com/v1", "Job"), None);
        let not_yet = json!({ "status": { "conditions": [{ "type": "Complete", "status": "False" }] } });
        assert!(!JobEndPredicates::for_kind("batch/v1", "Job").unwrap().succeeded.matches_object(&not_yet));
    }
}
