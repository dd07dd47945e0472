//! Answers with the views of a run.

use serde_json::{json, Map as JsonMap, Value as Json};
use toyspec::{
    binary32_text, binary64_text, KaunViews, MetricsViews, Number, Options, Point, Profile, RankViews, Summary,
    ToyViews, Views,
};

use crate::answers::profile;
use crate::tagging::tagged_object;

/// Returns the answer of a summarizer.
pub fn summarize(asked: &Json, stream: &[u8]) -> Result<Json, String> {
    let mut options = Options { profile: profile(asked), ..Options::default() };
    if let Some(limit) = asked["max_line_bytes"].as_u64() {
        options.max_line_bytes = limit as usize;
    }
    options.name = asked["name"].as_str().unwrap_or_default().to_string();
    let found = match asked["directory"].as_str() {
        Some(directory) => Summary::of_path(directory, &options),
        None => Summary::of_bytes(stream, &options),
    };
    let found = found.map_err(|error| error.to_string())?;
    let summary = match &found.views {
        Views::Toy(views) => toy(views),
        Views::Metrics(views) => metrics(views),
        Views::Kaun(views) => kaun(views),
        Views::None => JsonMap::new(),
    };
    Ok(json!({"profile": found.profile.map(Profile::name), "state": found.state.name(), "summary": summary}))
}

fn int(number: impl ToString) -> Json {
    json!({"int": number.to_string()})
}

fn float(number: f64) -> Json {
    json!({"float": binary64_text(number)})
}

fn binary32(number: f32) -> Json {
    json!({"f32": binary32_text(number)})
}

/// Returns the members that have a value.
fn members<const N: usize>(all: [(&str, Option<Json>); N]) -> JsonMap<String, Json> {
    all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}

fn digits(number: &Option<Number>) -> Option<Json> {
    number.as_ref().and_then(Number::integer_text).map(int)
}

fn toy(views: &ToyViews) -> JsonMap<String, Json> {
    members([
        ("run_id", views.run_id.clone().map(Json::from)),
        ("phase", Some(views.phase.as_str().into())),
        ("steps", Some(int(views.steps))),
        ("last_step", digits(&views.last_step)),
        ("loss_curve", Some(views.loss_curve.iter().map(|loss| loss.map(float)).collect())),
        ("final_loss", views.final_loss.map(|loss| loss.map_or(Json::Null, float))),
        ("duration_seconds", views.duration_seconds.map(float)),
        ("reason", views.reason.clone().map(Json::from)),
        ("ranks", (!views.ranks.is_empty()).then(|| views.ranks.iter().map(rank).collect())),
        ("first_stopped", views.first_stopped.map(int)),
    ])
}

fn rank(views: &RankViews) -> Json {
    let found = members([
        ("rank", Some(int(views.rank))),
        ("state", Some(views.state.name().into())),
        ("steps", Some(int(views.steps))),
        ("last_step", digits(&views.last_step)),
        ("reason", views.reason.clone().map(Json::from)),
    ]);
    found.into()
}

fn metrics(views: &MetricsViews) -> JsonMap<String, Json> {
    let statistic = |place: usize| views.statistics.map(|all| binary32(all[place]));
    members([
        ("steps", Some(int(views.steps))),
        ("last_step", digits(&views.last_step)),
        ("loss_curve", Some(views.loss_curve.iter().map(|loss| loss.map(binary32)).collect())),
        ("final_loss", views.final_loss().map(|loss| loss.map_or(Json::Null, binary32))),
        ("duration_seconds", views.duration_seconds.map(float)),
        ("loss_min", statistic(0)),
        ("loss_mean", statistic(1)),
        ("loss_max", statistic(2)),
        ("non_finite", Some(int(views.non_finite))),
    ])
}

fn kaun(views: &KaunViews) -> JsonMap<String, Json> {
    let tags = views.tags.iter().map(|(tag, views)| {
        let found = members([
            ("count", Some(int(views.count))),
            ("latest", Some(point(&views.latest))),
            ("best", views.best.as_ref().map(point)),
        ]);
        (tag.clone(), found.into())
    });
    members([("run_id", views.run_id.clone().map(Json::from)), ("tags", Some(tagged_object(tags.collect())))])
}

fn point(point: &Point) -> Json {
    let value = Some(point.value.map_or(Json::Null, float));
    let epoch = point.epoch.as_ref().map(int);
    members([("step", Some(int(&point.step))), ("epoch", epoch), ("value", value)]).into()
}
