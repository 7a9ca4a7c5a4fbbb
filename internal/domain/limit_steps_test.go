package domain

import (
	"fmt"
	"strings"
	"testing"
)

// TestLiveSteps_limits: the calls that change several limits of a running VM are in an order in which each of them is
// accepted.
func TestLiveSteps_limits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		live string
		want Values
		// steps are names and values in order.
		steps string
	}{
		"the whole VM and its threads get more, in longer periods": {
			"<period>50000</period><quota>40000</quota><global_period>60000</global_period><global_quota>50000</global_quota>",
			Values{
				"cpu.period": "100000", "cpu.quota": "90000", "cpu.global_period": "80000", "cpu.global_quota": "79000",
			},
			"global_quota=79000 global_period=80000 period=100000 quota=90000",
		},
		"they get less, in shorter periods": {
			"<period>100000</period><quota>90000</quota><global_period>80000</global_period><global_quota>79000</global_quota>",
			Values{"cpu.period": "50000", "cpu.quota": "40000", "cpu.global_period": "60000", "cpu.global_quota": "50000"},
			"quota=40000 period=50000 global_period=60000 global_quota=50000",
		},
		"the limits are removed": {
			"<shares>30</shares><quota>90000</quota><global_quota>95000</global_quota>",
			Values{"cpu.quota": "0", "cpu.global_quota": "0", "cpu.shares": "40"},
			"shares=40 global_quota=-1 quota=-1",
		},
		"they begin": {
			"",
			Values{"cpu.emulator_quota": "20000", "cpu.global_quota": "40000", "cpu.global_period": "50000"},
			"emulator_quota=20000 global_period=50000 global_quota=40000",
		},
	} {
		live := parse(t, `<domain type="qemu" id="1"><name>n</name><cputune>`+tt.live+`</cputune></domain>`)
		steps, err := LiveSteps(live, nil, nil, Spec{Values: tt.want})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range steps {
			got = append(got, strings.TrimPrefix(s.Path, "cpu.")+"="+s.Value)
		}
		if strings.Join(got, " ") != tt.steps {
			t.Errorf("%s: %s, want %s", name, got, tt.steps)
		}
	}
}

// TestLiveSteps_memoryLimits: all memory limits are changed in one call.
func TestLiveSteps_memoryLimits(t *testing.T) {
	t.Parallel()
	live := parse(t, `<domain type="qemu" id="1"><name>n</name><memtune><hard_limit unit="MiB">1</hard_limit>
		<swap_hard_limit unit="MiB">2</swap_hard_limit></memtune></domain>`)
	steps, err := LiveSteps(live, nil, nil, Spec{Values: Values{
		"memory.hard_limit": "3145728", "memory.swap_hard_limit": "0", "title": "T",
	}})
	if err != nil || len(steps) != 2 {
		t.Fatalf("%v, %v", steps, err)
	}
	limits := ParseTexts(steps[0].Value)
	if steps[0].Kind != SetMemoryLimit || steps[0].Path != "memory.hard_limit, memory.swap_hard_limit" ||
		limits["hard_limit"] != "3145728" || limits["swap_hard_limit"] != fmt.Sprint(uint64(unlimited)) {
		t.Errorf("%+v, %v", steps[0], limits)
	}
}
