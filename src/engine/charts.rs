//! Fetches charts of repositories and registries for later runs.

use super::api;
use super::event::Event;
use super::fetched::{ArtifactLine, ComputedDigest, Had, Users};
use super::run::{Events, Options};
use crate::config::Project;
use crate::kube::{FetchedChart, KubeError};
use crate::model::Untrusted;
use crate::probe::{ChartAsked, ChartFrom, Probe};
use crate::resource::Resource;
use std::collections::BTreeMap;
use std::time::Instant;

/// Returns the chart that a resource fetches, if it does.
pub(super) fn chart_to_fetch(resource: &dyn Resource) -> Option<ChartAsked> {
    resource.probes().into_iter().find_map(|probe| {
        let Probe::Release(release) = probe else { return None };
        release.chart.filter(|chart| matches!(chart.from, ChartFrom::Repository { .. } | ChartFrom::Oci(_)))
    })
}

/// Fetches charts sequentially, each with one `helm` process.
pub(super) async fn fetch_charts(
    project: &Project,
    charts: BTreeMap<ChartAsked, Users>,
    options: &Options,
    events: &Events,
) -> Vec<ArtifactLine> {
    let Some(access) = &project.kubernetes else { return Vec::new() };
    let helm = api::helm(options);
    let mut lines = Vec::new();
    for (chart, users) in charts {
        let began = Instant::now();
        let fetched = helm.fetch_chart(access, &chart).await.transpose();
        if let Some(Ok(FetchedChart { bytes, new: true, .. })) = &fetched {
            let (what, bytes) = (name(&chart).into(), *bytes);
            // Sending fails only when the receiver is gone, shortly before the process ends.
            let _ = events.send(Event::Fetched { what, bytes, took: began.elapsed() });
        }
        lines.extend(fetched.map(|fetched| line(&chart, users, fetched)));
    }
    lines
}

fn line(chart: &ChartAsked, users: Users, fetched: Result<FetchedChart, KubeError>) -> ArtifactLine {
    let computed = fetched.as_ref().ok().filter(|_| chart.sha256.is_none()).map(|fetched| ComputedDigest {
        line: format!("sha256: \"{}\"", fetched.sha256),
        places: users.places.into_iter().collect(),
        source_url: None,
        // A repository may redirect to other servers, which helm does not report.
        protected: false,
        optional: true,
    });
    let had = match fetched {
        Ok(FetchedChart { sha256, bytes, new: true }) => Had::New { sha256, bytes },
        Ok(FetchedChart { sha256, bytes, new: false }) => Had::Here { sha256, bytes },
        Err(error) => Had::Failed { why: error.message.into(), hint: error.hint.map(Untrusted::from) },
    };
    let (steps, hosts) = (users.steps.into_iter().collect(), users.hosts.into_iter().collect());
    ArtifactLine { name: name(chart), steps, hosts, had, computed }
}

fn name(chart: &ChartAsked) -> String {
    let version = &chart.version;
    match &chart.from {
        ChartFrom::Repository { url, name } => format!("chart {name} {version} of {url}"),
        from => format!("chart {} {version}", from.name()),
    }
}
