//! Dates in parameters.

/// Which instant of its day a bare date means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayEnd {
    /// The first second.
    Start,
    /// The last second.
    End,
}

/// Reads `yyyy-MM-dd`, `yyyy-MM-dd HH:mm:ss`, or an instant with an offset; without one it is UTC.
#[must_use]
pub fn read_date(text: &str, day: DayEnd) -> Option<jiff::Timestamp> {
    let text = text.trim();
    if let Some(instant) = crate::protocol::signature::read_instant(text) {
        return Some(instant);
    }
    let utc = jiff::tz::TimeZone::UTC;
    if text.contains(':') {
        let parsed = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", text).ok()?;
        return utc.to_timestamp(parsed).ok();
    }
    let date = jiff::civil::Date::strptime("%Y-%m-%d", text).ok()?;
    let time = match day {
        DayEnd::Start => date.at(0, 0, 0, 0),
        DayEnd::End => date.at(23, 59, 59, 0),
    };
    utc.to_timestamp(time).ok()
}
