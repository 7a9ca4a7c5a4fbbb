package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

func TestMain(m *testing.M) { opstest.Main(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5e6, time.Local)

func at(host, name string, e libvirt.Event) fleet.Event {
	e.Name = name
	if name != "" {
		e.UUID = "00000000-0000-4000-8000-000000000001"
	}
	return fleet.Event{At: noon, Host: host, Event: e}
}

func TestPrinter_text(t *testing.T) {
	t.Parallel()
	p := newPrinter(formatText, []string{"kvm1", "kvm10"})
	for _, test := range []struct {
		event fleet.Event
		want  string
	}{
		{
			at("kvm1", "", libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostUntilNow}),
			"kvm1   -  answers; following its events",
		},
		{
			at("kvm1", "web", libvirt.Event{Kind: libvirt.EventLifecycle, Detail: "Stopped", Reason: "Crashed"}),
			"kvm1   web  Stopped (Crashed)",
		},
		{at("kvm10", "web", libvirt.Event{Kind: libvirt.EventReboot}), "kvm10  web  Reboot"},
		{at("kvm1", "web", libvirt.Event{Kind: libvirt.EventAgent, Detail: "Connected"}), "kvm1   web  Agent Connected"},
		{
			at("kvm1", "web", libvirt.Event{Kind: libvirt.EventMigrationIteration, Iteration: 3}),
			"kvm1   web  MigrationIteration 3",
		},
		{
			at("kvm1", "web", libvirt.Event{
				Kind: libvirt.EventJobCompleted, Operation: "MigrationOut", Detail: "Failed", Reason: "link\x1b[2J\nlost",
			}),
			"kvm1   web  JobCompleted MigrationOut Failed (link [2J lost)",
		},
		{
			at("kvm1", "database", libvirt.Event{
				Kind: libvirt.EventIOError, Device: "ua-disk-root", Detail: "Pause", Reason: "enospc",
			}),
			"kvm1   database  IOError ua-disk-root Pause (enospc)",
		},
		{
			at("kvm1", "web", libvirt.Event{Kind: libvirt.EventDeviceRemoved, Device: "ua-net-lan"}),
			"kvm1   web       DeviceRemoved ua-net-lan",
		},
		{
			at("kvm1", "", libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostConnection}),
			"kvm1   -         the connection is lost; trying again",
		},
		{
			at("kvm1", "", libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostUntilNow}),
			"kvm1   -         answers again; what happened meanwhile was not seen",
		},
		{
			at("kvm1", "", libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostConnection, Reason: "refused"}),
			"kvm1   -         does not answer; trying again (refused)",
		},
	} {
		if diff := cmp.Diff(noon.Format(time.RFC3339Nano)[:19]+".005"+noon.Format("Z07:00")+"  "+test.want+"\n",
			p.eventLine(test.event)); diff != "" {
			t.Error(diff)
		}
	}
	if got := p.missedLine(noon, 7); !strings.Contains(got, "7 events are missing here: they came faster than") {
		t.Error(got)
	}
}

func TestPrinter_json(t *testing.T) {
	t.Parallel()
	p := newPrinter(formatJSON, []string{"kvm1"})
	for _, test := range []struct {
		line string
		want record
	}{
		{
			p.eventLine(at("kvm1", "web", libvirt.Event{Kind: libvirt.EventLifecycle, Detail: "Started", Reason: "Booted"})),
			record{
				Host: "kvm1", Name: "web", UUID: "00000000-0000-4000-8000-000000000001", Event: "Lifecycle",
				Detail: "Started", Reason: "Booted",
			},
		},
		{
			p.eventLine(at("kvm1", "", libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostConnection})),
			record{Host: "kvm1", Event: "Host", Detail: "Disconnected"},
		},
		{p.missedLine(noon, 7), record{Event: "Missed", Missed: 7}},
	} {
		var got record
		if err := json.Unmarshal([]byte(test.line), &got); err != nil || strings.Count(test.line, "\n") != 1 {
			t.Errorf("%q: %v", test.line, err)
		}
		test.want.Time = noon.UTC().Format("2006-01-02T15:04:05.000Z")
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestIsAbout(t *testing.T) {
	t.Parallel()
	web := at("kvm1", "web", libvirt.Event{Kind: libvirt.EventReboot})
	for vm, want := range map[string]bool{
		"": true, "web": true, "we": false, "00000000-0000-4000-8000-00000000000A": false,
		strings.ToUpper(web.UUID): true,
	} {
		if isAbout(web, vm) != want {
			t.Errorf("%q: got %t", vm, !want)
		}
	}
	if !isAbout(at("kvm1", "", libvirt.Event{Kind: libvirt.EventLost}), "web") {
		t.Error("a lost host is not told")
	}
}

// TestWrite_toASlowReader proves that a slow reader costs no memory, delays no other, and is told what is missing.
func TestWrite_toASlowReader(t *testing.T) {
	t.Parallel()
	q := newQueue()
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := printEvents(q, newPrinter(formatText, []string{"kvm1"}), writer)
		written <- errors.Join(err, writer.Close())
	}()
	event := at("kvm1", "web", libvirt.Event{Kind: libvirt.EventReboot})
	q.put(event)
	begun := make([]byte, 1)
	if _, err := io.ReadFull(reader, begun); err != nil { // From now on nothing is read: the line is stuck.
		t.Fatal(err)
	}
	const missed = 2 * backlog
	for range backlog + missed {
		q.put(event)
	}
	go q.end()
	text, err := io.ReadAll(reader)
	if err := errors.Join(err, <-written); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "Reboot"); n != 1+backlog {
		t.Errorf("got %d events, want %d", n, 1+backlog)
	}
	if want := fmt.Sprintf("%d events are missing here", missed); !strings.Contains(string(text), want) {
		t.Errorf("%q isn't told", want)
	}
}

// TestRun_aReaderWhoLeaves proves that the command ends when its reader is gone.
func TestRun_aReaderWhoLeaves(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{"--config", opstest.File(t, "uri: test:///default\n")}
	if err := Run(ctx, args, provider.Open, writer, io.Discard); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

func TestRun_onTheTestDriver(t *testing.T) {
	t.Parallel()
	r := opstest.Start(t, Run, "uri: test:///default\n")
	r.Out.Line(t, "default", "-", "answers; following its events")
	h, err := libvirt.Open(libvirt.Config{Name: "same", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	test, err := h.DomainByName(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.SuspendDomain(t.Context(), test.UUID); err != nil {
		t.Fatal(err)
	}
	r.Out.Line(t, "default", "test", "Suspended (Paused)")
	if err := h.ResumeDomain(t.Context(), test.UUID); err != nil {
		t.Fatal(err)
	}
	r.Out.Line(t, "default", "test", "Resumed (Unpaused)")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if text := r.Messages.String(); text != "" {
		t.Errorf("it also said: %s", text)
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	file := opstest.File(t, "hosts:\n  a: {uri: 'test:///default'}\n"+
		"  b: {uri: 'qemu+tcp://127.0.0.1:9/system', fenced: true}\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", file + "x"}, "no such file"},
		{[]string{"--config", file, "--host", "c"}, `there is no host "c" to follow; there are: a`},
		{[]string{"--config", file, "--host", "b"}, `there is no host "b"`},
		{[]string{"--output", "xml"}, "-output must be text or json"},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		err := Run(t.Context(), test.args, provider.Open, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %s", test.args, err, test.want)
		}
	}
}
