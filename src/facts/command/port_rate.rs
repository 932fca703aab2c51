//! The rate of an RDMA port, as `/sys/class/infiniband/*/ports/*/rate` and `ibstatus` print it.

/// A rate: `400 Gb/sec (4X NDR)`.
#[derive(Clone, Debug, PartialEq)]
pub struct PortRate {
    /// Gb/s
    pub gbps: f64,
    /// Lanes in use.
    pub width: Option<u64>,
    /// InfiniBand's name for the speed of one lane: `NDR`. An Ethernet port prints the name of a similar speed, which
    /// has no meaning there.
    pub speed: Option<String>,
}

/// Parses a rate; `None` if it has another format.
pub fn parse_port_rate(text: &str) -> Option<PortRate> {
    let (gbps, rest) = text.trim().split_once(" Gb/sec")?;
    let gbps: f64 = gbps.parse().ok().filter(|gbps: &f64| gbps.is_finite())?;
    let Some(inside) = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return rest.trim().is_empty().then_some(PortRate { gbps, width: None, speed: None });
    };
    let (width, speed) = inside.split_once('X')?;
    let speed = Some(speed.trim()).filter(|speed| !speed.is_empty()).map(str::to_owned);
    Some(PortRate { gbps, width: Some(width.parse().ok()?), speed })
}

impl PortRate {
    /// Classifies the width of an InfiniBand port: `full`, `split` (half of the lanes, as with a split cable) or `lost`
    /// (a single lane: the others failed).
    pub fn lane_state(&self) -> Option<&'static str> {
        match self.width? {
            1 => Some("lost"),
            2 => Some("split"),
            _ => Some("full"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_state_depends_on_rate_and_width() {
        let lanes = |text| parse_port_rate(text).map(|rate| (rate.gbps, rate.lane_state(), rate.speed));
        assert_eq!(lanes("400 Gb/sec (4X NDR)"), Some((400.0, Some("full"), Some("NDR".into()))));
        assert_eq!(lanes("200 Gb/sec (2X NDR)"), Some((200.0, Some("split"), Some("NDR".into()))));
        assert_eq!(
            lanes("100 Gb/sec (1X NDR)"),
            Some((100.0, Some("lost"), Some("NDR".into()))),
            "three lanes are lost"
        );
        assert_eq!(lanes("100 Gb/sec (4X EDR)"), Some((100.0, Some("full"), Some("EDR".into()))));
        assert_eq!(lanes("2.5 Gb/sec (1X)"), Some((2.5, Some("lost"), None)));
        assert_eq!(lanes("40 Gb/sec"), Some((40.0, None, None)));
        assert_eq!(lanes("NaN Gb/sec"), None);
        assert_eq!(lanes("fast"), None);
    }
}
