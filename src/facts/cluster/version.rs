//! `kubernetes_version`: the version of the API server.

use super::fact::ClusterFact;
use crate::facts::fact::FactShape;
use crate::model::Value;
use crate::probe::UnansweredReason;
use serde_json::json;

pub(super) const FACT: ClusterFact = ClusterFact {
    name: "kubernetes_version",
    doc: "The version of the API server.",
    shape: FactShape::Map,
    fields: &[
        ("text", "as reported: `v1.30.6`, `v1.29.4-eks-036c24b`"),
        ("major", "the first number: `1`"),
        ("minor", "the second number: `30`"),
    ],
    path: "/version",
    parse,
};

/// The fields `major` and `minor` of the answer are text, with a `+` for some vendors, so the full version is parsed.
fn parse(told: &Value) -> Result<Value, UnansweredReason> {
    let text = told.get("gitVersion").and_then(Value::as_str);
    let numbers = text.and_then(|text| {
        let mut parts = text.strip_prefix('v')?.split(['.', '-', '+']);
        Some((parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?))
    });
    match (text, numbers) {
        (Some(text), Some((major, minor))) => Ok(json!({ "text": text, "major": major, "minor": minor })),
        (Some(text), None) => {
            Err(UnansweredReason::new("the API server does not report its version").with_message(text))
        }
        (None, _) => Err(UnansweredReason::new("the API server does not report its version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_suffix_is_accepted_in_version() {
        let of = |text: &str| parse(&json!({ "major": "1", "minor": "29+", "gitVersion": text }));
        // origin: source, version.Info of Kubernetes with the suffixes of EKS and k3s
        let eks = json!({ "text": "v1.29.4-eks-036c24b", "major": 1, "minor": 29 });
        assert_eq!(of("v1.29.4-eks-036c24b"), Ok(eks));
        assert_eq!(of("v1.30.6+k3s1").unwrap()["minor"], 30);
        assert_eq!(of("v1.20.2"), Ok(json!({ "text": "v1.20.2", "major": 1, "minor": 20 })));
    }

    #[test]
    fn missing_version_makes_fact_unknown() {
        let why = |told: Value| parse(&told).unwrap_err().why;
        assert_eq!(why(json!({})), "the API server does not report its version");
        assert_eq!(why(json!({ "gitVersion": "unknown" })), "the API server does not report its version");
    }
}
