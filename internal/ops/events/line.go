package events

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/terminal"
)

// printer formats events as lines.
type printer struct {
	format string
	lines  *terminal.Lines
	lost   map[string]bool // hosts that don't answer
}

func newPrinter(format string, hosts []string) *printer {
	return &printer{format: format, lines: terminal.NewLines(terminal.TimeFormat, hosts), lost: map[string]bool{}}
}

// record is an event in JSON. Two kinds aren't libvirt's: "Host" for changes of the connection to a host, and "Missed".
type record struct {
	Time      string `json:"time"`
	Host      string `json:"host,omitempty"`
	Name      string `json:"name,omitempty"`
	UUID      string `json:"uuid,omitempty"`
	Event     string `json:"event"`
	Detail    string `json:"detail,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Device    string `json:"device,omitempty"`
	Operation string `json:"operation,omitempty"`
	Iteration int    `json:"iteration,omitempty"`
	Missed    int    `json:"missed,omitempty"`
}

// eventLine returns the line of an event.
func (p *printer) eventLine(e fleet.Event) string {
	name, kind := e.Name, e.Kind.String()
	if e.Kind == libvirt.EventLost {
		name, kind = terminal.None, "Host"
	}
	if p.format == formatJSON {
		return formatLine(record{
			Time: e.At.UTC().Format(terminal.TimeFormat), Host: e.Host, Name: e.Name, UUID: e.UUID, Event: kind,
			Detail: e.Detail, Reason: e.Reason, Device: e.Device, Operation: e.Operation, Iteration: e.Iteration,
		})
	}
	return p.lines.Line(e.At, e.Host, name, p.eventText(e)) + "\n"
}

// missedLine returns the line that replaces events for which the reader was too slow.
func (p *printer) missedLine(at time.Time, n int) string {
	if p.format == formatJSON {
		return formatLine(record{Time: at.UTC().Format(terminal.TimeFormat), Event: "Missed", Missed: n})
	}
	what := fmt.Sprintf("%d events are missing here: they came faster than they were read", n)
	return p.lines.Line(at, terminal.None, terminal.None, what) + "\n"
}

func formatLine(r record) string {
	text, err := json.Marshal(r)
	if err != nil { // texts and numbers can't fail
		return ""
	}
	return string(text) + "\n"
}

// eventText describes what happened, with the reason in brackets.
func (p *printer) eventText(e fleet.Event) string {
	if e.Kind == libvirt.EventLost {
		return p.hostWords(e)
	}
	var words []string
	add := func(word string) {
		if word != "" {
			words = append(words, word)
		}
	}
	if e.Kind != libvirt.EventLifecycle {
		add(e.Kind.String())
	}
	add(e.Device)
	add(e.Operation)
	if e.Iteration > 0 {
		add(strconv.Itoa(e.Iteration))
	}
	add(e.Detail)
	if e.Reason != "" {
		add("(" + e.Reason + ")")
	}
	return strings.Join(words, " ")
}

// hostWords describes what happened to the connection to a host.
func (p *printer) hostWords(e fleet.Event) string {
	was := p.lost[e.Host]
	switch e.Detail {
	case libvirt.LostConnection:
		p.lost[e.Host] = true
		if e.Reason == "" {
			return "the connection is lost; trying again"
		}
		return "does not answer; trying again (" + e.Reason + ")"
	case libvirt.LostUntilNow:
		p.lost[e.Host] = false
		if was {
			return "answers again; what happened meanwhile was not seen"
		}
		return "answers; following its events"
	default:
		return "events are missing here: they came faster than they were read"
	}
}
