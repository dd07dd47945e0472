//! What the rules that relate records want to know of a record.

use crate::check::hot::MAX_PHASES;
use crate::schema::{Constant, StreamRule};
use crate::Profile;

/// What the rules that relate records use of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Nothing,
    Clock,
    Count,
    Phase,
    Loss,
}

/// What rules that relate records ask of kinds and fields.
pub(crate) struct Roles {
    /// Kinds that a rule waits for, whose records take the exact path.
    pub awaited: Vec<&'static str>,
    pub step_kind: Option<&'static str>,
    pub phases: Vec<&'static str>,
    fields: Vec<(&'static str, Role)>,
}

impl Roles {
    pub fn of(profile: Profile) -> Roles {
        let mut roles = Roles { awaited: Vec::new(), step_kind: None, phases: Vec::new(), fields: Vec::new() };
        let table = profile.table();
        for rule in table.rules {
            match rule {
                StreamRule::First { kind, .. }
                | StreamRule::Once { kind, .. }
                | StreamRule::Last { kind, .. }
                | StreamRule::Present { kind, .. }
                | StreamRule::Requires { kind, .. }
                | StreamRule::LessThan { kind, .. }
                | StreamRule::Differs { kind, .. }
                | StreamRule::Inside { kind, .. }
                | StreamRule::Counted { kind, .. }
                | StreamRule::RankOfFile { kind, .. }
                | StreamRule::SameRun { kind, .. }
                | StreamRule::Filed { kind, .. } => roles.awaited.push(kind),
                StreamRule::Nested { enter, exit, closed_by, .. } => roles.awaited.extend([enter, exit, closed_by]),
                StreamRule::Monotone { field, repeats: true, .. } => roles.fields.push((field, Role::Clock)),
                StreamRule::Monotone { field, repeats: false, .. } => roles.fields.push((field, Role::Count)),
                StreamRule::Sequence { kind, field, restart_kind, .. } => {
                    roles.awaited.push(restart_kind);
                    roles.step_kind = Some(kind);
                    roles.fields.push((field, Role::Count));
                }
                StreamRule::SameAsLast { kind, of_field, .. } => {
                    roles.awaited.push(kind);
                    roles.fields.push((of_field, Role::Loss));
                }
                StreamRule::NullNumber { .. } => {}
            }
        }
        if let Some(phase) = &table.phase {
            roles.fields.push((phase.field, Role::Phase));
            let fields = table.kinds.iter().flat_map(|kind| kind.fields).filter(|field| field.name == phase.field);
            let values = fields.flat_map(|field| field.schema.values).filter_map(|value| match value {
                Constant::Text(text) => Some(*text),
                Constant::Integer(_) => None,
            });
            roles.phases = values.take(MAX_PHASES).collect();
        }
        roles
    }

    /// Returns the role of a field: the first that a rule gives it.
    pub fn role(&self, name: &str) -> Role {
        self.fields.iter().find(|(field, _)| *field == name).map_or(Role::Nothing, |(_, role)| *role)
    }
}
