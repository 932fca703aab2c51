//! Floors that others publish, by product, fabric, scope, size and metric: `recipes/data/acceptance-floors.yaml`.

use super::verdict::ExpectedValue;
use serde::Deserialize;

/// How a published floor is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FloorQuality {
    /// Finds a degraded fabric, and healthy hardware reaches it. Others are not listed.
    Use,
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
    /// `gpu`, `port`, `host`, `two hosts`.
    pub scope: String,
    /// The test: `all_reduce`, `ib_write_bw`.
    pub test: String,
    /// Message sizes as the source gives them.
    pub size: String,
    /// The compared value: `busbw`, `average busbw`, `bandwidth`, `typical`.
    pub metric: String,
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
}

/// Reads the rows of the table.
///
/// # Errors
/// Returns the first row that cannot be read.
pub fn parse_floors(rows: &serde_json::Value) -> Result<Vec<AcceptanceFloor>, String> {
    let rows = rows.get("floors").and_then(serde_json::Value::as_array).ok_or("the table has no `floors`")?;
    let parse = |row: &serde_json::Value| {
        let floor: AcceptanceFloor = serde_json::from_value(row.clone()).map_err(|error| format!("{error}: {row}"))?;
        match floor.to_expected() {
            Some(_) => Ok(floor),
            None => Err(format!("`{}` needs exactly one of `least` and `most`", floor.name)),
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
        let mut row = floor_row(("least", 380.0));
        row["floors"][0]["most"] = 1.into();
        let error = parse_floors(&row).unwrap_err();
        assert_eq!(error, "`ndr/port/ib_write_bw` needs exactly one of `least` and `most`");
        row["floors"][0]["verdict"] = "weak".into();
        assert!(parse_floors(&row).unwrap_err().starts_with("unknown variant `weak`, expected `use`"));
    }
}
