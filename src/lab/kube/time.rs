//! The lab's clock, and time as Kubernetes writes it.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;

/// Now. The lab has no port for it: it plays the outside world.
#[expect(
    clippy::disallowed_methods,
    reason = "the lab is the outside world and has its own clock"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Waits. See [`now`].
#[expect(
    clippy::disallowed_methods,
    reason = "the lab is the outside world and lets time pass"
)]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A fresh uid, as objects carry it.
#[expect(
    clippy::disallowed_methods,
    reason = "the lab is the outside world and makes its own ids"
)]
pub(crate) fn fresh_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A time in whole seconds, as in `creationTimestamp`.
pub(crate) fn seconds(time: Timestamp) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%SZ", time).unwrap_or_default()
}

/// A time with microseconds, as in a lease.
pub(crate) fn micros(time: Timestamp) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", time).unwrap_or_default()
}

/// Now in whole seconds.
pub(crate) fn stamp() -> String {
    seconds(now())
}

/// Reads a time as Kubernetes writes it.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// How long ago a written time was, as tables show it; `<unknown>` if it cannot be read.
pub(crate) fn age(text: &str) -> String {
    parse(text).map_or_else(
        || "<unknown>".to_owned(),
        |then| human(now().as_second() - then.as_second()),
    )
}

/// A duration in seconds as kubectl shows it: two units at most, the fewer the longer.
pub(crate) fn human(total: i64) -> String {
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    let (minutes, hours) = (total / 60, total / 3600);
    match total {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{total}s"),
        120..600 => pair(minutes, "m", total % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(hours / 24, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{}d", hours / 24),
        63_072_000..252_288_000 => pair(hours / 8760, "y", (hours / 24) % 365, "d"),
        _ => format!("{}y", hours / 8760),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_as_kubectl_shows_it() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (100, "100s"),
            (119, "119s"),
            (120, "2m"),
            (172, "2m52s"),
            (600, "10m"),
            (7200, "120m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (864_000, "10d"),
            (63_158_400, "2y1d"),
        ];
        for (input, expected) in cases {
            assert_eq!(human(input), expected, "{input} seconds");
        }
    }

    #[test]
    fn a_time_is_written_and_read_back() {
        let time = parse("2026-11-30T17:41:12.123456Z").unwrap();
        assert_eq!(seconds(time), "2026-11-30T17:41:12Z");
        assert_eq!(micros(time), "2026-11-30T17:41:12.123456Z");
        assert_eq!(parse("soon"), None);
    }
}
