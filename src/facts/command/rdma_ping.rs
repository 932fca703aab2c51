//! `rping -v` and `ibv_rc_pingpong`: what the two ends of a connection print.

/// What one end of `rping -v` printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpingRun {
    /// Pings up to the last one that is printed: they have numbers from 0.
    pub pings: u64,
    /// The event that prevented the connection: `RDMA_CM_EVENT_REJECTED, error -104`.
    pub refused: Option<String>,
    /// The status of a transfer that failed (`enum ibv_wc_status`).
    pub failed_status: Option<String>,
    /// Whether a ping came back changed.
    pub mismatch: bool,
}

/// Parses both streams of the client or of the server. Their order does not matter.
pub fn parse_rping(text: &str) -> RpingRun {
    let mut run = RpingRun::default();
    for line in text.lines().map(str::trim) {
        let data = line.strip_prefix("server ").unwrap_or(line);
        if let Some(number) = data.strip_prefix("ping data: rdma-ping-").and_then(|rest| rest.split(':').next()) {
            run.pings = run.pings.max(number.parse::<u64>().map_or(0, |number| number.saturating_add(1)));
        } else if let Some(event) = line.strip_prefix("cma event ") {
            run.refused.get_or_insert_with(|| event.to_owned());
        } else if let Some(status) = line.strip_prefix("cq completion failed status ") {
            run.failed_status.get_or_insert_with(|| status.to_owned());
        } else if line == "data mismatch!" {
            run.mismatch = true;
        }
    }
    run
}

/// What one end of `ibv_rc_pingpong` printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PingpongRun {
    /// Finished exchanges, which it prints at its end only.
    pub exchanges: Option<u64>,
    /// Why its queue pair has no connection: `Failed to modify QP to RTR`.
    pub refused: Option<String>,
    /// Why a message did not arrive: `transport retry counter exceeded (12)`.
    pub failed_status: Option<String>,
}

/// Parses both streams of the client or of the server.
pub fn parse_pingpong(text: &str) -> PingpongRun {
    let mut run = PingpongRun::default();
    for line in text.lines().map(str::trim) {
        if let Some((count, _)) = line.split_once(" iters in ") {
            run.exchanges = count.parse().ok();
        } else if let Some(status) = line.strip_prefix("Failed status ") {
            let status = status.split(" for wr_id ").next().unwrap_or(status);
            run.failed_status.get_or_insert_with(|| status.to_owned());
        } else if line.starts_with("Failed to modify QP to RT") {
            run.refused.get_or_insert_with(|| line.to_owned());
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_of_both_ends_are_counted() {
        for text in [
            include_str!("../../../tests/samples/rping-client.txt"),
            include_str!("../../../tests/samples/rping-server.txt"),
        ] {
            assert_eq!(parse_rping(text), RpingRun { pings: 2, ..RpingRun::default() }, "{text}");
        }
        let rejected = parse_rping(include_str!("../../../tests/samples/rping-rejected.txt"));
        assert_eq!(rejected.refused.as_deref(), Some("RDMA_CM_EVENT_REJECTED, error -104"));
        // origin: reconstructed, librdmacm/examples/rping.c
        let failed = parse_rping("cq completion failed status 12\nwait for RDMA_WRITE_ADV state 11\n");
        assert_eq!((failed.failed_status.as_deref(), failed.pings), (Some("12"), 0));
        assert!(parse_rping("data mismatch!\n").mismatch);
        assert_eq!(parse_rping("rdma_create_event_channel: No such device\n"), RpingRun::default());
    }

    #[test]
    fn exchanges_are_read_from_the_end_of_a_run() {
        let done = parse_pingpong(include_str!("../../../tests/samples/ibv_rc_pingpong.txt"));
        assert_eq!(done, PingpongRun { exchanges: Some(1000), ..PingpongRun::default() });
        let lost = parse_pingpong(include_str!("../../../tests/samples/ibv_rc_pingpong-retry.txt"));
        assert_eq!(lost.failed_status.as_deref(), Some("transport retry counter exceeded (12)"));
        let refused = parse_pingpong(include_str!("../../../tests/samples/ibv_rc_pingpong-rtr.txt"));
        assert_eq!((refused.refused.as_deref(), refused.exchanges), (Some("Failed to modify QP to RTR"), None));
        assert_eq!(parse_pingpong("Couldn't connect to 10.0.0.1:18515\n"), PingpongRun::default());
    }
}
