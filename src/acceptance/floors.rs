//! Floors that others publish, by product, fabric, scope, size and metric: `recipes/data/acceptance-floors.yaml`.

use super::judge::CollectiveValue;
use super::judge_plain::parse_size;
use super::verdict::ExpectedValue;
use serde::Deserialize;

/// How a published floor is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FloorQuality {
    /// Finds a degraded fabric, and healthy hardware reaches it. Others are not listed.
    Use,
}

/// Where a floor was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloorScope {
    /// A GPU, or a pair of GPUs of a host.
    Gpu,
    /// A port of an adapter.
    Port,
    /// The GPUs of one host.
    Host,
    /// The GPUs of two hosts.
    #[serde(rename = "two hosts")]
    TwoHosts,
}

/// The value that is compared with a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloorMetric {
    /// Bus bandwidth of the largest size.
    Busbw,
    /// Mean of the bus bandwidths of all sizes.
    #[serde(rename = "average busbw")]
    AverageBusbw,
    /// Bandwidth of one size.
    Bandwidth,
    /// The typical latency.
    Typical,
}

/// One published floor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceFloor {
    /// The name that tests use: `h100-sxm/host/all_reduce`.
    pub name: String,
    /// GPU or adapter: `H100 SXM x8`, `NDR 400G`.
    pub product: String,
    /// `nvlink`, `infiniband`, `roce`, `pcie`, `tcpx`.
    pub fabric: String,
    /// Where it was measured.
    pub scope: FloorScope,
    /// The test: `all_reduce`, `ib_write_bw`.
    pub test: String,
    /// Message sizes as the source gives them.
    pub size: String,
    /// The compared value.
    pub metric: FloorMetric,
    /// The least good value; absent for a latency.
    pub least: Option<f64>,
    /// The greatest good value, for a latency.
    pub most: Option<f64>,
    /// `Gb/s`, `GB/s`, `us`.
    pub unit: String,
    /// How it is judged.
    pub verdict: FloorQuality,
    /// Repository, revision and file.
    pub source: String,
}

impl AcceptanceFloor {
    /// Returns the floor as an expectation; `None` if it has no limit.
    pub fn to_expected(&self) -> Option<ExpectedValue> {
        match (self.least, self.most) {
            (Some(least), None) => Some(ExpectedValue::at_least(least, &self.unit, &self.name)),
            (None, Some(most)) => Some(ExpectedValue::at_most(most, &self.unit, &self.name)),
            _ => None,
        }
    }

    /// Returns how the value of a collective is computed for this floor; `None` if the sizes cannot be read.
    pub fn collective_value(&self) -> Option<CollectiveValue> {
        if self.metric != FloorMetric::AverageBusbw {
            return Some(CollectiveValue::LargestSize);
        }
        let (begin, end) = self.size.split_once("..").or_else(|| self.size.split_once(", "))?;
        Some(CollectiveValue::Average { begin: parse_size(begin)?, end: parse_size(end)? })
    }
}

/// Reads the rows of the table.
///
/// # Errors
/// Returns the first row that cannot be read.
pub fn parse_floors(rows: &serde_json::Value) -> Result<Vec<AcceptanceFloor>, String> {
    let rows = rows.get("floors").and_then(serde_json::Value::as_array).ok_or("the table has no `floors`")?;
    let parse = |row: &serde_json::Value| {
        let floor: AcceptanceFloor = serde_json::from_value(row.clone()).map_err(|error| format!("{error}: {row}"))?;
        match (floor.to_expected(), floor.collective_value()) {
            (Some(_), Some(_)) => Ok(floor),
            (_, None) => Err(format!("the sizes of `{}` cannot be read: {}", floor.name, floor.size)),
            (None, _) => Err(format!("`{}` needs exactly one of `least` and `most`", floor.name)),
        }
    };
    rows.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn floor_row(limit: (&str, f64)) -> serde_json::Value {
        let mut row = json!({"name": "ndr/port/ib_write_bw", "product": "NDR", "fabric": "infiniband", "scope": "port",
            "test": "ib_write_bw", "size": "declared", "metric": "bandwidth", "unit": "Gb/s", "verdict": "use",
            "source": "a repository"});
        row[limit.0] = limit.1.into();
        json!({"floors": [row]})
    }

    #[test]
    fn floor_has_one_limit_and_a_usable_verdict() {
        let floors = parse_floors(&floor_row(("least", 380.0))).unwrap();
        let expected = floors[0].to_expected().unwrap().to_string();
        assert_eq!(expected, "at least 380 Gb/s (ndr/port/ib_write_bw)");
        assert_eq!(
            (floors[0].scope, floors[0].collective_value()),
            (FloorScope::Port, Some(CollectiveValue::LargestSize))
        );
        let mut row = floor_row(("least", 380.0));
        row["floors"][0]["most"] = 1.into();
        let error = parse_floors(&row).unwrap_err();
        assert_eq!(error, "`ndr/port/ib_write_bw` needs exactly one of `least` and `most`");
        row["floors"][0]["verdict"] = "weak".into();
        assert!(parse_floors(&row).unwrap_err().starts_with("unknown variant `weak`, expected `use`"));
    }

    #[test]
    fn average_is_taken_over_the_sizes_of_the_floor() {
        let mut row = floor_row(("least", 440.0));
        row["floors"][0]["metric"] = "average busbw".into();
        row["floors"][0]["size"] = "1G..16G".into();
        let floors = parse_floors(&row).unwrap();
        let average = CollectiveValue::Average { begin: 1 << 30, end: 16 << 30 };
        assert_eq!(floors[0].collective_value(), Some(average));
        row["floors"][0]["size"] = "large".into();
        let error = "the sizes of `ndr/port/ib_write_bw` cannot be read: large";
        assert_eq!(parse_floors(&row).unwrap_err(), error);
    }
}
