package domain

import (
	"fmt"

	"github.com/beevik/etree"
)

const (
	clockWhy      = "The clock is set up when the VM starts."
	clockVariable = "variable"
	clockAbsolute = "absolute"
)

// clockOffsets are the offsets that give attributes their meaning; clockNeeds are the attributes that an offset needs.
var (
	clockOffsets = map[string]string{
		"timezone": "timezone", "basis": clockVariable, "adjustment": clockVariable, "start": clockAbsolute,
	}
	clockNeeds = map[string]string{"timezone": "timezone", clockAbsolute: "start"}
)

// timerAttribute returns an attribute of one of the clock's timers.
func timerAttribute(name, place string, values []string, doc, byDefault string) Attribute {
	a := Attribute{
		Name: name, Place: "clock/timer[name=" + place, Values: values, Why: clockWhy, Doc: doc, DefaultDoc: byDefault,
	}
	if values == nil {
		a.Kind = Switch
	}
	return a
}

// tickPolicies are the ways to handle ticks that the guest missed.
// tickPolicies are those of the PIT that QEMU has. libvirt's "merge" is refused by its driver for QEMU.
var tickPolicies = []string{"delay", "catchup", "discard"}

// clockGroup is the guest's clock.
var clockGroup = Group{
	Path: "platform.clock",
	Doc:  "Clock of the guest and its timers.",
	Attributes: []Attribute{
		{
			Name: "offset", Values: []string{"utc", "localtime", "timezone", clockVariable, clockAbsolute},
			SinceOf: map[string]string{clockAbsolute: "8.4.0"},
			Read:    func(e *etree.Element) string { return textAt(e, "clock@offset") },
			Write: func(e *etree.Element, value string) error {
				setTextAt(e, "clock@offset", value)
				for _, key := range []string{"adjustment", "basis", "start"} {
					setTextAt(e, "clock@"+key, "")
				}
				return nil
			},
			Why:        clockWhy,
			DefaultDoc: "`utc`",
			Doc: "What the guest's hardware clock shows: `utc`, `localtime` of the host, as Windows expects, the time of " +
				"`timezone`, `adjustment` seconds from `basis` (`variable`), or `start` (`absolute`, libvirt 8.4).",
		},
		{
			Name: "timezone", Place: "clock@timezone", Follows: "offset", Why: clockWhy,
			Doc: "Time zone with `offset = \"timezone\"`, such as `Europe/Berlin`.",
		},
		{
			Name: "basis", Place: "clock@basis", Values: []string{"localtime"}, Unset: "utc", Follows: "offset",
			Why: clockWhy, DefaultDoc: "`utc`",
			Doc: "What `adjustment` is counted from.",
		},
		{
			Name: "adjustment", Kind: Count, Signed: true, Zero: true, Moves: true, Follows: "offset", Why: clockWhy,
			Read: func(e *etree.Element) string {
				if textAt(e, "clock@offset") != clockVariable {
					return "" // With another offset, it says what a start makes of the guest's changes.
				}
				return textAt(e, "clock@adjustment")
			},
			Write: func(e *etree.Element, value string) error {
				setTextAt(e, "clock@adjustment", value)
				return nil
			},
			DefaultDoc: "`0`",
			Doc: "Seconds, which may be negative, with `offset = \"variable\"`. If the guest sets its clock, the " +
				"value changes until the VM stops. The plan ignores that.",
		},
		{
			Name: "start", Place: "clock@start", Kind: Count, Follows: "offset", Why: clockWhy,
			Doc: "Time of each start of the VM with `offset = \"absolute\"`, in seconds since 1970.",
		},
		timerAttribute("rtc_tickpolicy", "rtc]@tickpolicy", []string{"delay", "catchup"},
			"What happens to missed ticks of the hardware clock: they come late (`delay`) or faster (`catchup`).",
			"`catchup` on x86"),
		timerAttribute("rtc_track", "rtc]@track", []string{"guest", "wall", "realtime"},
			"What the hardware clock follows: the `guest`'s time, which stops while the guest is paused, `wall` time, or "+
				"the host's monotonic clock (`realtime`).", ""),
		timerAttribute("pit_tickpolicy", "pit]@tickpolicy", tickPolicies,
			"Whether missed ticks of the timer PIT come late (`delay`) or faster (`catchup`), or are lost "+
				"(`discard`).", "`delay` on x86"),
		timerAttribute("hpet", "hpet]@present", nil, "Whether the VM has a high precision event timer.", "`false` on x86"),
		timerAttribute("kvmclock", "kvmclock]@present", nil, "Whether the guest can use KVM's clock, for Linux.",
			"QEMU's, which is `true` with KVM"),
		timerAttribute("hypervclock", "hypervclock]@present", nil, "Whether the guest can use Hyper-V's clock, for Windows.",
			"`false`"),
		timerAttribute("tsc", "tsc]@present", nil, "Whether the guest can use the time stamp counter.",
			"QEMU's, which is `true`"),
		{
			Name: "tsc_frequency", Place: "clock/timer[name=tsc]@frequency", Kind: Count, Why: clockWhy,
			Doc: "Frequency of the time stamp counter in Hz, the same on every host. A host that can't provide it can't " +
				"run the VM.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		offset := value("offset")
		if name := clockNeeds[offset]; name != "" && value(name) == "" {
			return name, fmt.Sprintf("The offset %q needs it.", offset)
		}
		for _, name := range sortedKeys(clockOffsets) {
			if offset != clockOffsets[name] && value(name) != "" {
				return name, fmt.Sprintf("It needs offset = %q.", clockOffsets[name])
			}
		}
		return "", ""
	},
}
