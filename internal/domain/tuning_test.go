package domain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tuned is a VM with threads and devices that are tuned in every way, and with what no attribute describes.
const tuned = `<domain type="qemu"><name>n</name><vcpu>4</vcpu><iothreads>2</iothreads>
  <blkiotune><weight>200</weight>
    <device><path>/dev/a.1</path><weight>300</weight><unknown/></device>
    <device><path>/dev/b</path><read_bytes_sec>1000</read_bytes_sec></device></blkiotune>
  <cputune><vcpusched vcpus="0-2" scheduler="fifo" priority="3"/><vcpusched vcpus="3" scheduler="batch" unknown="1"/>
    <iothreadsched iothreads="1-2" scheduler="idle"/>
    <cachetune vcpus="0-3" id="vcpus_0-3"><cache id="0" level="3" type="both" size="3" unit="MiB"/><unknown/>
      <monitor level="3" vcpus="0-3"/><monitor level="3" vcpus="3"/></cachetune>
    <memorytune vcpus="0-3"><node id="0" bandwidth="60" unknown="1"/></memorytune></cputune>
  <os><type arch="x86_64" machine="q35">hvm</type></os><devices/></domain>`

// TestTuning_patches: a change of what is tuned leaves the rest as it is, and what no attribute describes.
func TestTuning_patches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		want       Spec
		gone, come []string
	}{
		{
			name: "the scheduler of one virtual CPU of several",
			want: Spec{Values: Values{"cpu.scheduler": FormatTable(map[string]Row{
				"0": {"type": "fifo", "priority": "3"}, "1": {"type": "rr", "priority": "9"},
				"2": {"type": "fifo", "priority": "3"}, "3": {"type": "batch"},
			})}},
			gone: []string{`vcpusched priority="3" scheduler="fifo" vcpus="0-2"`},
			come: []string{
				`vcpusched priority="3" scheduler="fifo" vcpus="0,2"`, `vcpusched priority="9" scheduler="rr" vcpus="1"`,
			},
		},
		{
			name: "another limit of a device, whose path has a dot",
			want: Spec{Values: Values{"platform.resources.blkio_devices": FormatTable(map[string]Row{
				"/dev/a.1": {"weight": "400"}, "/dev/b": {"read_bytes_sec": "1000"},
			})}},
			gone: []string{`weight "300"`}, come: []string{`weight "400"`},
		},
		{
			name: "a device goes",
			want: Spec{Values: Values{"platform.resources.blkio_devices": FormatTable(map[string]Row{
				"/dev/a.1": {"weight": "300"},
			})}},
			gone: []string{"device", `path "/dev/b"`, `read_bytes_sec "1000"`},
		},
		{
			name: "another part of a cache",
			want: Spec{Values: Values{"cpu.cachetune": FormatTable(map[string]Row{
				"0-3": {"caches": "l3/0=6Mi\n", "monitors": `["0-3","3"]`},
			})}},
			gone: []string{`cache id="0" level="3" size="3" type="both" unit="MiB"`},
			come: []string{`cache id="0" level="3" size="6144" type="both" unit="KiB"`},
		},
		{
			name: "another share of the memory bandwidth",
			want: Spec{Values: Values{"cpu.memorytune": FormatTable(map[string]Row{"0-3": {"bandwidth": "0=70\n"}})}},
			gone: []string{`node bandwidth="60" id="0" unknown="1"`}, come: []string{`node bandwidth="70" id="0" unknown="1"`},
		},
		{
			name: "fewer I/O threads", want: Spec{Values: Values{"platform.iothreads": "1"}},
			gone: []string{`iothreads "2"`, `iothreadsched iothreads="1-2" scheduler="idle"`},
			come: []string{`iothreads "1"`, `iothreadsched iothreads="1" scheduler="idle"`},
		},
		{
			name: "no I/O threads", want: Spec{Values: Values{"platform.iothreads": ""}},
			gone: []string{`iothreads "2"`, `iothreadsched iothreads="1-2" scheduler="idle"`},
		},
		{
			name: "fewer virtual CPUs", want: Spec{CPU: CPU{VCPUs: new(3), MaxSockets: new(3)}},
			gone: []string{
				`vcpu "4"`, `vcpusched scheduler="batch" unknown="1" vcpus="3"`, `cachetune id="vcpus_0-3" vcpus="0-3"`,
				`monitor level="3" vcpus="0-3"`, `monitor level="3" vcpus="3"`, `memorytune vcpus="0-3"`,
			},
			come: []string{
				`vcpu "3"`, `cachetune id="vcpus_0-3" vcpus="0-2"`, `monitor level="3" vcpus="0-2"`, `memorytune vcpus="0-2"`,
			},
		},
	} {
		d := parse(t, tuned)
		before := lines(d)
		if err := d.Apply(test.want); err != nil {
			t.Error(test.name, err)
			continue
		}
		if diff := cmp.Diff(count(test.gone), diffLines(before, lines(d))); diff != "" {
			t.Errorf("%s: -gone: %s", test.name, diff)
		}
		if diff := cmp.Diff(count(test.come), diffLines(lines(d), before)); diff != "" {
			t.Errorf("%s: -come: %s", test.name, diff)
		}
	}
}

// TestTuning_refusesWhatIsWrong: what libvirt or Linux would refuse, or would drop without an error, is refused first.
func TestTuning_refusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	table := func(path, key string, row Row) Values { return Values{path: FormatTable(map[string]Row{key: row})} }
	scheduler := func(row Row) Values { return table("cpu.scheduler", "0", row) }
	device := func(path string, row Row) Values { return table("platform.resources.blkio_devices", path, row) }
	emulated := Spec{Type: "qemu", Values: table("cpu.cachetune", "0-1", Row{"caches": "l3/0=3Mi\n"})}
	if problems := emulated.Validate(); len(problems) != 1 || problems[0].Path != "cpu.cachetune" {
		t.Error(problems)
	}
	for _, test := range []struct {
		values  Values
		problem string
	}{
		{scheduler(Row{"type": "batch"}), ""},
		{scheduler(Row{"type": "fifo", "priority": "99"}), ""},
		{scheduler(Row{"priority": "1"}), "cpu.scheduler: 0: A priority needs a type"},
		{scheduler(Row{"type": "fifo"}), "cpu.scheduler: 0: The type fifo needs a priority"},
		{scheduler(Row{"type": "idle", "priority": "1"}), "cpu.scheduler: 0: Only the types fifo and rr"},
		{scheduler(Row{"type": "rr", "priority": "100"}), `cpu.scheduler.0.priority: "100" isn't a number from 1 to 99`},
		{table("cpu.scheduler", "0-1", Row{"type": "batch"}), `The key "0-1" isn't a number`},
		{Values{"cpu.emulator_scheduler.type": "rr"}, "cpu.emulator_scheduler.priority: The type rr needs a priority"},
		{Values{"cpu.emulator_scheduler.type": None}, ""},
		{Values{"cpu.emulator_scheduler.type": "batch"}, ""},
		{table("cpu.cachetune", "0-1", Row{"caches": "l3/0=3Mi\n"}), ""},
		{table("cpu.cachetune", "1,0", Row{"caches": "l3/0=3Mi\n"}), `Write the key "1,0" as "0-1"`},
		{table("cpu.cachetune", "0-1", Row{}), `"0-1" needs a cache or monitors`},
		{table("cpu.cachetune", "0-1", Row{"caches": "0=3Mi\n"}), `"0" isn't a cache of the host`},
		{table("cpu.cachetune", "0-1", Row{"caches": "l3/0=3\n"}), `"3" isn't a size`},
		{table("cpu.cachetune", "0", Row{"caches": "l3/0=3Mi\nl3_data/0=1Mi\n"}), `there is no "l3_data/0"`},
		{table("cpu.cachetune", "0-1", Row{"monitors": `["1-2"]`}), `The monitor of "1-2" isn't inside of "0-1"`},
		{table("cpu.cachetune", "0-3", Row{"monitors": `["0-1","0-3","2"]`}), ""},
		{table("cpu.cachetune", "0-3", Row{"monitors": `["0-1","1-2"]`}), `The monitors of "0-1" and "1-2" overlap`},
		{table("cpu.memorytune", "0-3", Row{"monitors": `["1","1"]`}), `There are two monitors of "1"`},
		{
			Values{"cpu.cachetune": FormatTable(map[string]Row{
				"0-1": {"caches": "l3/0=3Mi\n"}, "1-2": {"caches": "l3/0=3Mi\n"},
			})},
			`The sets "0-1" and "1-2" overlap`,
		},
		{
			Values{
				"cpu.cachetune":  FormatTable(map[string]Row{"0-1": {"caches": "l3/0=3Mi\n"}}),
				"cpu.memorytune": FormatTable(map[string]Row{"1": {"bandwidth": "0=20\n"}}),
			}, `cpu.memorytune: The sets "0-1" and "1" overlap`,
		},
		{
			Values{
				"cpu.cachetune":  FormatTable(map[string]Row{"0-1": {"caches": "l3/0=3Mi\n"}}),
				"cpu.memorytune": FormatTable(map[string]Row{"0-1": {"bandwidth": "0=20\n"}}),
			}, "",
		},
		{table("cpu.memorytune", "0", Row{"bandwidth": "0=101\n"}), "It isn't a number from 1 to 100"},
		{device("/dev/sda.1", Row{"weight": "500", "write_iops_sec": "5"}), ""},
		{device("sda", Row{"weight": "500"}), "isn't the absolute path of a block device"},
		{device("/dev/a,b", Row{"weight": "500"}), "isn't the absolute path of a block device"},
		{device("/dev/sda", Row{}), `"/dev/sda" needs a weight or a limit`},
		{device("/dev/sda.1", Row{"read_iops_sec": "4294967296"}), `"4294967296" isn't a number from 1 to 4294967295`},
	} {
		values := Values{"platform.iothreads": "2"}
		for path, value := range test.values {
			values[path] = value
		}
		var said []string
		for _, p := range (Spec{CPU: CPU{VCPUs: new(4)}, Values: values}).Validate() {
			said = append(said, p.Error())
		}
		if text := strings.Join(said, "\n"); (text == "") != (test.problem == "") || !strings.Contains(text, test.problem) {
			t.Errorf("%v: %q", test.values, text)
		}
	}
}

// TestTuning_lackingThreads: a thread that the VM doesn't have isn't tuned. What isn't declared of an existing VM isn't
// known: it may have more virtual CPUs.
func TestTuning_lackingThreads(t *testing.T) {
	t.Parallel()
	row := FormatTable(map[string]Row{"3": {"type": "batch"}})
	whole := CPU{VCPUs: new(2), Cores: new(1), Threads: new(1), MaxSockets: new(3)}
	for name, test := range map[string]struct {
		spec        Spec
		is, created string // what is said of an existing VM, and of a new one
		running     *CPU
	}{
		"a virtual CPU": {
			Spec{CPU: whole, Values: Values{"cpu.scheduler": row}},
			"There is no virtual CPU 3: the VM has 0 to 2.", "There is no virtual CPU 3: the VM has 0 to 2.", nil,
		},
		"cores that a running VM has": {
			Spec{CPU: CPU{Sockets: new(1)}, Values: Values{"cpu.scheduler": row}},
			"There is no virtual CPU 3: the VM has 0 to 1.", "There is no virtual CPU 3: the VM has 0 to 1.",
			&CPU{VCPUs: new(2), Cores: new(2)},
		},
		"a set of virtual CPUs": {
			Spec{CPU: whole, Values: Values{"cpu.cachetune": FormatTable(map[string]Row{"2-3": {"caches": "l3/0=3Mi\n"}})}},
			"There is no virtual CPU 3: the VM has 0 to 2.", "There is no virtual CPU 3: the VM has 0 to 2.", nil,
		},
		"one that fits": {Spec{CPU: CPU{VCPUs: new(4)}, Values: Values{"cpu.scheduler": row}}, "", "", nil},
		"cores that aren't declared": {
			Spec{CPU: CPU{Sockets: new(1)}, Values: Values{"cpu.scheduler": row}},
			"", "There is no virtual CPU 3: the VM has 0 to 0.", nil,
		},
		"an I/O thread": {
			Spec{Values: Values{"cpu.iothread_scheduler": row, "platform.iothreads": "2"}},
			"There is no I/O thread 3: the VM has 1 to 2.", "There is no I/O thread 3: the VM has 1 to 2.", nil,
		},
		"no I/O threads": {
			Spec{Values: Values{"cpu.iothread_scheduler": row, "platform.iothreads": "0"}},
			"The VM has no I/O thread.", "The VM has no I/O thread.", nil,
		},
		"a pinned virtual CPU": {
			Spec{CPU: whole, Values: Values{cpuPin: "2=0\n3=1\n"}},
			"There is no virtual CPU 3: the VM has 0 to 2.", "There is no virtual CPU 3: the VM has 0 to 2.", nil,
		},
		"a pinned I/O thread": {
			Spec{Values: Values{iothreadPin: "1=0\n3=1\n", iothreadCount: "2"}},
			"There is no I/O thread 3: the VM has 1 to 2.", "There is no I/O thread 3: the VM has 1 to 2.", nil,
		},
		"the I/O thread of a disk": {
			Spec{Disks: map[string]Disk{
				"a": {Values: Values{"iothread": "0"}}, "b": {Values: Values{"iothread": "2"}},
			}, Values: Values{iothreadCount: "1"}},
			"There is no I/O thread 2: the VM has 1 to 1.", "There is no I/O thread 2: the VM has 1 to 1.", nil,
		},
		"I/O threads that aren't declared": {
			Spec{Values: Values{"cpu.iothread_scheduler": row}}, "", "The VM has no I/O thread.", nil,
		},
	} {
		for isNew, want := range map[bool]string{false: test.is, true: test.created} {
			said := ""
			for _, p := range test.spec.LackingThreads(isNew, test.running) {
				said += p.Message
			}
			if said != want {
				t.Errorf("%s, new %v: %q, want %q", name, isNew, said, want)
			}
		}
	}
}

// TestTuning_devicesWhileItRuns: limits of devices come, change and go in the running VM, a weight goes with a restart.
func TestTuning_devicesWhileItRuns(t *testing.T) {
	t.Parallel()
	const path = "platform.resources.blkio_devices"
	for want, live := range map[string]bool{
		"/dev/a.1.weight=400\n/dev/c.read_iops_sec=7\n": true, // b goes.
		"/dev/b.read_bytes_sec=1000\n":                  false,
		"":                                              false,
	} {
		d := parse(t, tuned)
		spec := Spec{Values: Values{path: want}}
		changes := Changes(d.Spec(), spec)
		steps, err := LiveSteps(d, nil, nil, spec)
		if err != nil || len(changes) != 1 || changes[0].Path != path || changes[0].Live != live ||
			(len(steps) == 1) != live {
			t.Errorf("%q: %v %v %v", want, changes, steps, err)
			continue
		}
		if live && (steps[0].Kind != SetBlkioDevices || steps[0].Value != want ||
			steps[0].Was != "/dev/a.1.weight=300\n/dev/b.read_bytes_sec=1000\n") {
			t.Errorf("%q: %+v", want, steps[0])
		}
	}
}

// TestTuning_exactSizes: a part of a cache keeps its size to the KiB, whatever its unit.
func TestTuning_exactSizes(t *testing.T) {
	t.Parallel()
	const path = "cpu.cachetune"
	for declared, normal := range map[string]string{
		"16896Ki": "16896Ki", "33Mi": "33Mi", "33792Ki": "33Mi", "1048576Ki": "1Gi", "1024Gi": "1024Gi",
	} {
		d := parse(t, tuned)
		want := FormatTable(map[string]Row{"0-3": {"caches": "l3/0=" + declared + "\n"}})
		if err := d.Apply(Spec{Values: Values{path: want}}); err != nil {
			t.Fatal(err)
		}
		if read := ParseTable(d.Spec().Values[path])["0-3"]["caches"]; read != "l3/0="+normal+"\n" {
			t.Errorf("%s is read as %q", declared, read)
		}
		other := FormatTable(map[string]Row{"0-3": {"caches": "l3/0=16Mi\n"}})
		if len(Changes(d.Spec(), Spec{Values: Values{path: want}})) > 0 ||
			len(Changes(d.Spec(), Spec{Values: Values{path: other}})) == 0 {
			t.Errorf("%s differs from itself, or doesn't from 16Mi", declared)
		}
	}
}

// A period that is declared as libvirt's default is written to the running VM, too: it would be missing there, and the
// apply would fail. A running VM that was set back to the default, and so has it, is as declared.
func TestPeriod_isWrittenAsDeclared(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		live, want string
		steps      int
	}{
		"the default is declared": {"", "100000", 1},
		"it is there":             {"<period>100000</period>", "100000", 0},
		"it was set back":         {"<period>100000</period>", "0", 0},
		"it is set back":          {"<period>50000</period>", "0", 1},
		"nothing is declared":     {"", "0", 0},
	} {
		live := parse(t, `<domain type="qemu" id="1"><name>n</name><cputune>`+tt.live+`</cputune></domain>`)
		want := Spec{Values: Values{"cpu.period": tt.want}}
		persistent := live.Clone()
		if err := persistent.Apply(want); err != nil {
			t.Fatal(err)
		}
		steps, err := LiveSteps(live, persistent, persistent, want)
		if err != nil || len(steps) != tt.steps {
			t.Errorf("%s: %v, %v; want %d steps", name, steps, err, tt.steps)
		}
	}
}
