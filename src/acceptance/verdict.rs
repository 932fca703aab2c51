//! The result of a test: passed, failed, or not measured. The declared limit applies without further tolerance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one test with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum TestVerdict {
    /// The value is within the limit.
    Pass {
        /// The value.
        value: f64,
        /// What it was compared with: `at least 360 Gb/s (0.9 of 400)`.
        expected: String,
    },
    /// The value is outside the limit, or the test showed a fault by itself.
    Fail {
        /// The value; `None` if the test failed without one.
        value: Option<f64>,
        /// Why it failed.
        reason: String,
    },
    /// No meaningful value was measured: never a pass.
    NotMeasured {
        /// Why there is none.
        reason: String,
    },
}

impl TestVerdict {
    /// Returns a verdict without a value.
    pub fn not_measured(reason: impl Into<String>) -> Self {
        Self::NotMeasured { reason: reason.into() }
    }

    /// Returns the measured value, if any.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Pass { value, .. } => Some(*value),
            Self::Fail { value, .. } => *value,
            Self::NotMeasured { .. } => None,
        }
    }
}

/// Which values are good.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExpectedValue {
    /// The least good value, or the greatest one for a latency.
    pub limit: f64,
    /// Whether greater values are better.
    pub more_is_better: bool,
    /// `Gb/s`, `GB/s`, `us`.
    pub unit: String,
    /// Where the limit comes from: `declared`, `0.9 of 400`, or the source of a floor.
    pub origin: String,
}

impl ExpectedValue {
    /// Returns an expectation of at least `limit`.
    pub fn at_least(limit: f64, unit: &str, origin: &str) -> Self {
        Self { limit, more_is_better: true, unit: unit.to_owned(), origin: origin.to_owned() }
    }

    /// Returns an expectation of at most `limit`.
    pub fn at_most(limit: f64, unit: &str, origin: &str) -> Self {
        Self { limit, more_is_better: false, unit: unit.to_owned(), origin: origin.to_owned() }
    }

    /// Compares a value, without any tolerance.
    pub fn judge(&self, value: f64) -> TestVerdict {
        let is_good = if self.more_is_better { value >= self.limit } else { value <= self.limit };
        match is_good {
            true => TestVerdict::Pass { value, expected: self.to_string() },
            false => TestVerdict::Fail {
                value: Some(value),
                reason: format!("{}, expected {self}", format_measure(value, &self.unit)),
            },
        }
    }
}

impl std::fmt::Display for ExpectedValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bound = if self.more_is_better { "at least" } else { "at most" };
        write!(out, "{bound} {} ({})", format_measure(self.limit, &self.unit), self.origin)
    }
}

/// Formats a value with its unit; a count has none.
pub fn format_measure(value: f64, unit: &str) -> String {
    match unit {
        "" => format_number(value),
        unit => format!("{} {unit}", format_number(value)),
    }
}

/// Formats a value with two decimal places, without trailing zeros.
pub fn format_number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_no_tolerance() {
        let least = ExpectedValue::at_least(360.0, "Gb/s", "0.9 of 400");
        let pass = TestVerdict::Pass { value: 360.0, expected: "at least 360 Gb/s (0.9 of 400)".into() };
        assert_eq!(least.judge(360.0), pass);
        let reason = "359.99 Gb/s, expected at least 360 Gb/s (0.9 of 400)".to_owned();
        assert_eq!(least.judge(359.99), TestVerdict::Fail { value: Some(359.99), reason });
        let count = ExpectedValue::at_least(6.0, "", "declared");
        let reason = "5, expected at least 6 (declared)".to_owned();
        assert_eq!(count.judge(5.0), TestVerdict::Fail { value: Some(5.0), reason });
        let most = ExpectedValue::at_most(5.0, "us", "declared");
        assert!(matches!(most.judge(5.0), TestVerdict::Pass { .. }));
        assert_eq!(most.judge(5.01).value(), Some(5.01));
        assert!(matches!(most.judge(5.01), TestVerdict::Fail { .. }));
    }
}
