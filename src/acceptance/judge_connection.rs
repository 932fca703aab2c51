//! Judges tests that only show whether a connection works: `rping` and `ibv_rc_pingpong`. Both ends must say so.
//!
//! The exit status does not suffice: `rping` also succeeds if the connection ended in the middle. A program that fails
//! without a message about the connection, such as one that does not find its device, measured nothing.

use super::verdict::TestVerdict;
use crate::facts::command::rdma_ping::{parse_pingpong, parse_rping};

/// What both ends of a connection printed.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionEnds<'t> {
    /// Both streams of the client.
    pub client: &'t str,
    /// Both streams of the server.
    pub server: &'t str,
    /// The exit status of the client with its message; `None` if it succeeded.
    pub failure: Option<&'t str>,
}

/// Judges `rping -v`, with `count` pings.
pub fn judge_rping(ends: &ConnectionEnds<'_>, count: Option<u64>) -> TestVerdict {
    let Some(count) = count.filter(|count| *count > 0) else {
        return TestVerdict::not_measured("the parameter `count` is not a number of pings");
    };
    let (client, server) = (parse_rping(ends.client), parse_rping(ends.server));
    let answered = client.pings;
    let either = |of_client: Option<String>, of_server: Option<String>| {
        of_client.map(|why| (why, "client")).or(of_server.map(|why| (why, "server")))
    };
    if let Some((event, end)) = either(client.refused, server.refused) {
        return fail(format!("the connection manager of the {end} reports {event}"));
    }
    if client.mismatch {
        return fail(format!("ping {} came back changed", answered + 1));
    }
    if let Some((status, end)) = either(client.failed_status, server.failed_status) {
        return fail(format!("a transfer of the {end} failed with status {status}, after {answered} of {count} pings"));
    }
    match (ends.failure, answered) {
        (Some(why), _) => TestVerdict::not_measured(why),
        (None, 0) => TestVerdict::not_measured("the output has no pings"),
        (None, answered) if answered < count => fail(format!("the connection ended after {answered} of {count} pings")),
        (None, _) if server.pings < count => TestVerdict::not_measured(format!(
            "the client printed {answered} pings, and the server {} of them",
            server.pings
        )),
        (None, _) => pass(count, "each came back unchanged"),
    }
}

/// Judges `ibv_rc_pingpong`, with `count` exchanges.
pub fn judge_pingpong(ends: &ConnectionEnds<'_>, count: Option<u64>) -> TestVerdict {
    let Some(count) = count.filter(|count| *count > 0) else {
        return TestVerdict::not_measured("the parameter `iterations` is not a number of exchanges");
    };
    let (client, server) = (parse_pingpong(ends.client), parse_pingpong(ends.server));
    for (end, run) in [("client", &client), ("server", &server)] {
        if let Some(why) = &run.refused {
            return fail(format!("no connection: the {end} printed `{why}`"));
        }
        if let Some(status) = &run.failed_status {
            return fail(format!("a message of the {end} did not arrive: {status}"));
        }
    }
    match (ends.failure, client.exchanges, server.exchanges) {
        (Some(why), ..) => TestVerdict::not_measured(why),
        (None, None, _) => TestVerdict::not_measured("the output has no exchanges"),
        (None, Some(_), None) => TestVerdict::not_measured("the server printed no exchanges"),
        (None, Some(one), Some(other)) if one.min(other) < count => {
            TestVerdict::not_measured(format!("the client printed {one} exchanges, and the server {other}, of {count}"))
        }
        (None, Some(_), Some(_)) => pass(count, "each arrived at both ends"),
    }
}

fn pass(count: u64, expected: &str) -> TestVerdict {
    TestVerdict::Pass { value: count as f64, expected: expected.to_owned() }
}

fn fail(reason: String) -> TestVerdict {
    TestVerdict::Fail { value: None, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = include_str!("../../tests/samples/rping-client.txt");
    const SERVER: &str = include_str!("../../tests/samples/rping-server.txt");
    const PINGPONG: &str = include_str!("../../tests/samples/ibv_rc_pingpong.txt");

    fn ping(client: &str, server: &str, failure: Option<&str>) -> TestVerdict {
        judge_rping(&ConnectionEnds { client, server, failure }, Some(2))
    }

    fn exchange(client: &str, server: &str, failure: Option<&str>) -> TestVerdict {
        judge_pingpong(&ConnectionEnds { client, server, failure }, Some(1000))
    }

    #[test]
    fn connection_passes_if_both_ends_say_so() {
        assert_eq!(ping(CLIENT, SERVER, None), pass(2, "each came back unchanged"));
        assert_eq!(exchange(PINGPONG, PINGPONG, None), pass(1000, "each arrived at both ends"));
        let silent = ping(CLIENT, "", None);
        assert_eq!(silent, TestVerdict::not_measured("the client printed 2 pings, and the server 0 of them"));
        assert_eq!(exchange(PINGPONG, "", None), TestVerdict::not_measured("the server printed no exchanges"));
        let none = TestVerdict::not_measured("the output has no pings");
        assert_eq!((ping("", SERVER, None), ping("usage", "", None)), (none.clone(), none));
    }

    /// `rping` exits with 0 if it was disconnected before its last ping.
    #[test]
    fn connection_that_ended_early_fails_whatever_its_exit_status() {
        let ends = ConnectionEnds { client: CLIENT, server: SERVER, failure: None };
        let reason = "the connection ended after 2 of 10 pings".to_owned();
        assert_eq!(judge_rping(&ends, Some(10)), TestVerdict::Fail { value: None, reason });
        let count = TestVerdict::not_measured("the parameter `count` is not a number of pings");
        assert_eq!((judge_rping(&ends, None), judge_rping(&ends, Some(0))), (count.clone(), count));
    }

    #[test]
    fn refused_connections_and_lost_messages_fail_with_the_end_that_reports_them() {
        let rejected = include_str!("../../tests/samples/rping-rejected.txt");
        let reason = "the connection manager of the client reports RDMA_CM_EVENT_REJECTED, error -104";
        assert_eq!(ping(rejected, "", Some("exit status 255")), fail(reason.to_owned()));
        let first = CLIENT.lines().next().unwrap_or_default();
        let broken = format!("{first}\ncq completion failed status 12\n");
        let reason = "a transfer of the client failed with status 12, after 1 of 2 pings";
        assert_eq!(ping(&broken, SERVER, Some("exit status 255")), fail(reason.to_owned()));
        let changed = format!("{first}\ndata mismatch!\n");
        assert_eq!(ping(&changed, SERVER, Some("exit status 255")), fail("ping 2 came back changed".to_owned()));

        let lost = include_str!("../../tests/samples/ibv_rc_pingpong-retry.txt");
        let reason = "a message of the client did not arrive: transport retry counter exceeded (12)";
        assert_eq!(exchange(lost, "", Some("exit status 1")), fail(reason.to_owned()));
        // origin: field, the same notes as the server's sample
        let client = "client read: No space left on device\nCouldn't read remote address\n";
        let server = include_str!("../../tests/samples/ibv_rc_pingpong-rtr.txt");
        let reason = "no connection: the server printed `Failed to modify QP to RTR`";
        assert_eq!(exchange(client, server, Some("exit status 1")), fail(reason.to_owned()));
    }

    /// The network over which the ends of `ibv_rc_pingpong` find each other is not that of the adapters.
    #[test]
    fn program_that_did_not_reach_its_peer_or_device_measured_nothing() {
        let why = "exit status 1: Couldn't connect to 10.0.0.1:18515";
        assert_eq!(exchange(&why[15..], "", Some(why)), TestVerdict::not_measured(why));
        let missing = "exit status 127: the program `rping` is not installed";
        assert_eq!(ping("", "", Some(missing)), TestVerdict::not_measured(missing));
    }
}
