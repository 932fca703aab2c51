//! What hardware can reach at most, computed from facts: the rate of ports and the PCIe slot.

use super::verdict::{ExpectedValue, format_measure, format_number};

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// 3, 4, 5, 6.
    pub generation: u8,
    /// Number of lanes.
    pub width: u8,
}

impl PcieLink {
    /// Returns the link of a speed as the kernel prints it (`32.0 GT/s PCIe`) and a number of lanes.
    pub fn from_speed(speed: &str, width: u8) -> Option<Self> {
        let generation = match speed.split_whitespace().next()? {
            "2.5" => 1,
            "5.0" | "5" => 2,
            "8.0" | "8" => 3,
            "16.0" | "16" => 4,
            "32.0" | "32" => 5,
            "64.0" | "64" => 6,
            _ => return None,
        };
        Some(Self { generation, width })
    }

    /// Returns the payload rate of one direction in Gb/s, after the line code; `None` for an unknown generation.
    /// Generations 3 to 5 send 128 of 130 bits, generation 6 236 of 256 bytes.
    pub fn gbits(self) -> Option<f64> {
        let lane = match self.generation {
            1 => 2.5 * 0.8,
            2 => 5.0 * 0.8,
            3 => 8.0 * 128.0 / 130.0,
            4 => 16.0 * 128.0 / 130.0,
            5 => 32.0 * 128.0 / 130.0,
            6 => 64.0 * 236.0 / 256.0,
            _ => return None,
        };
        Some(lane * f64::from(self.width))
    }
}

/// Returns what a port can carry, in Gb/s: its rate, or that of its slot if it is lower.
pub fn port_ceiling(rate_gbits: f64, slot: Option<PcieLink>) -> f64 {
    slot.and_then(PcieLink::gbits).map_or(rate_gbits, |slot| slot.min(rate_gbits))
}

/// Returns the expectation of a declared share of a ceiling.
pub fn expect_share(ceiling: f64, share: f64, unit: &str) -> ExpectedValue {
    let origin = format!("{} of {}", format_number(share), format_number(ceiling));
    ExpectedValue::at_least(ceiling * share, unit, &origin)
}

/// Compares a floor with what the hardware can reach.
///
/// # Errors
/// Returns why the floor cannot be reached.
pub fn check_floor(floor: f64, ceiling: f64, unit: &str) -> Result<(), String> {
    match floor > ceiling {
        true => Err(format!(
            "the floor of {} is above the {} that the hardware can reach",
            format_measure(floor, unit),
            format_measure(ceiling, unit)
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_limited_by_its_slot() {
        let gen5 = PcieLink { generation: 5, width: 16 };
        assert_eq!(port_ceiling(400.0, Some(gen5)), 400.0);
        let narrow = port_ceiling(400.0, Some(PcieLink { generation: 5, width: 8 }));
        assert!((narrow - 252.06).abs() < 0.01, "{narrow}");
        let old = port_ceiling(400.0, Some(PcieLink { generation: 4, width: 16 }));
        assert!((old - 252.06).abs() < 0.01, "{old}");
        assert_eq!(port_ceiling(400.0, Some(PcieLink { generation: 9, width: 16 })), 400.0);
        assert_eq!(port_ceiling(200.0, None), 200.0);
        assert_eq!(PcieLink::from_speed("32.0 GT/s PCIe", 16), Some(gen5));
        assert_eq!(PcieLink::from_speed("Unknown", 16), None);
    }

    #[test]
    fn floor_above_the_ceiling_is_refused() {
        assert_eq!(check_floor(400.0, 400.0, "Gb/s"), Ok(()));
        let error = "the floor of 800 GB/s is above the 400 GB/s that the hardware can reach".to_owned();
        assert_eq!(check_floor(800.0, 400.0, "GB/s"), Err(error));
        assert_eq!(expect_share(400.0, 0.85, "Gb/s").to_string(), "at least 340 Gb/s (0.85 of 400)");
    }
}
