//! CRDs that are ordinary objects of a release: helm deletes them with all their objects, and changes only its own.

use super::super::KubeError;
use super::observe::ReleaseObserver;
use super::stored_release::StoredRelease;
use crate::model::Value;
use crate::object::{
    DoomedDefinition, HELM_MANAGER, ManifestObject, ReleaseQuery, ReleaseState, ReleaseStatus, UnownedDefinition,
    find_owning_release,
};
use serde_json::json;

impl ReleaseObserver<'_> {
    /// Returns the CRDs that helm deletes: those of the installed manifest that `wanted` no longer has.
    async fn find_doomed_definitions(
        &self,
        noted: &StoredRelease,
        wanted: &[ManifestObject],
    ) -> Result<Vec<DoomedDefinition>, KubeError> {
        let mut doomed = Vec::new();
        let goes = |object: &&ManifestObject| {
            object.is_definition() && !object.is_kept() && !wanted.iter().any(|other| is_same_definition(object, other))
        };
        for definition in noted.manifest.iter().filter(goes) {
            if let Some(live) = self.objects.get_live(definition).await? {
                let objects = self.objects.count_objects(&live).await?;
                doomed.push(DoomedDefinition { name: definition.name().to_owned(), objects });
            }
        }
        Ok(doomed)
    }

    /// Returns the CRDs of `wanted` that exist without belonging to this release.
    async fn find_unowned_definitions(&self, wanted: &[ManifestObject]) -> Result<Vec<UnownedDefinition>, KubeError> {
        let own = self.qualified_name();
        let mut unowned = Vec::new();
        for definition in wanted.iter().filter(|object| object.is_definition()) {
            let Some(live) = self.objects.get_live(definition).await? else { continue };
            let owner = find_owning_release(&live);
            if owner.as_ref() != Some(&own) {
                let name = definition.name().to_owned();
                unowned.push(UnownedDefinition { name, owner: owner.map(Into::into) });
            }
        }
        Ok(unowned)
    }

    /// Adds to the state what an uninstall deletes and keeps.
    pub(super) async fn add_uninstall_losses(
        &self,
        noted: &StoredRelease,
        state: &mut ReleaseState,
    ) -> Result<(), KubeError> {
        state.doomed = self.find_doomed_definitions(noted, &[]).await?;
        let kept = noted.manifest.iter().filter(|object| object.is_kept());
        state.kept = kept.map(|object| object.display_title(self.asked.namespace.as_str())).collect();
        Ok(())
    }

    /// Adds to the state which CRDs an install or upgrade to `wanted` deletes, and which it needs to take over.
    pub(super) async fn add_definition_changes(
        &self,
        noted: Option<&StoredRelease>,
        wanted: &[ManifestObject],
        state: &mut ReleaseState,
    ) -> Result<(), KubeError> {
        let Some(noted) = noted else {
            state.unowned = self.find_unowned_definitions(wanted).await?;
            return Ok(());
        };
        state.doomed = self.find_doomed_definitions(noted, wanted).await?;
        // A failed upgrade recorded them without owning them.
        let own = if noted.info.status == ReleaseStatus::Deployed { noted.manifest.as_slice() } else { &[] };
        let new = wanted.iter().filter(|object| !own.iter().any(|own| is_same_definition(object, own)));
        state.unowned = self.find_unowned_definitions(&new.cloned().collect::<Vec<_>>()).await?;
        Ok(())
    }

    /// Makes the CRDs of the chart's templates that no release owns part of this release, as helm marks them. Returns
    /// their names.
    pub(super) async fn adopt_definitions(&self) -> Result<Vec<String>, KubeError> {
        let wanted = self.render_declared().await?;
        let unowned = self.find_unowned_definitions(&wanted).await?;
        let mut adopted = Vec::new();
        for definition in wanted.iter().filter(|object| object.is_definition()) {
            let free = |other: &&UnownedDefinition| other.name == definition.name() && other.owner.is_none();
            if unowned.iter().any(|other| free(&other)) {
                let metadata = ownership_metadata(self.asked);
                self.objects.patch_metadata(definition, &metadata, HELM_MANAGER).await?;
                adopted.push(definition.name().to_owned());
            }
        }
        Ok(adopted)
    }
}

fn is_same_definition(one: &ManifestObject, other: &ManifestObject) -> bool {
    other.is_definition() && one.name() == other.name()
}

/// Returns the metadata by which helm recognizes the objects of a release.
pub(super) fn ownership_metadata(asked: &ReleaseQuery) -> Value {
    json!({
        "labels": { "app.kubernetes.io/managed-by": "Helm" },
        "annotations": {
            "meta.helm.sh/release-name": asked.name,
            "meta.helm.sh/release-namespace": asked.namespace,
        },
    })
}
