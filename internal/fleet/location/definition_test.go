package location_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/location"
)

func TestChoose_neverGuesses(t *testing.T) {
	t.Parallel()

	const no = -1

	type d = location.Definition

	begun := d{HostUUID: "1", Unfinished: []string{"2"}, LocalData: true}

	for name, tt := range map[string]struct {
		definitions []d
		want        int
	}{
		"alone":               {[]d{{}}, 0},
		"written later":       {[]d{{Generation: 4, Last: true}, {Generation: 5}}, 1},
		"written later, of 3": {[]d{{Generation: 4}, {Generation: 5}, {Generation: 3, Last: true}}, 1},
		"written later, the older one ran since": {
			[]d{{Generation: 4, Ran: true}, {Generation: 5}}, no,
		},
		"written later, both ran":          {[]d{{Generation: 4, Ran: true}, {Generation: 5, Ran: true}}, 1},
		"the same, nothing of their own":   {[]d{{Generation: 4}, {Generation: 4, Last: true}}, 1},
		"the same, neither was seen":       {[]d{{Generation: 4}, {Generation: 4}}, no},
		"the same, with disks":             {[]d{{Last: true, LocalData: true}, {LocalData: true}}, no},
		"the same, one with a memory":      {[]d{{Last: true}, {LocalData: true}}, no},
		"the same, the other one ran":      {[]d{{Last: true}, {Ran: true}}, no},
		"one has other words":              {[]d{{Last: true, Document: "a"}, {Document: "b"}}, no},
		"copied, and not to the end":       {[]d{begun, {HostUUID: "2"}}, 0},
		"copied, and the copy has run":     {[]d{begun, {HostUUID: "2", Ran: true}}, no},
		"copied, and both have run":        {[]d{hasRun(begun), {HostUUID: "2", Ran: true}}, no},
		"copied, after the source has run": {[]d{hasRun(begun), {HostUUID: "2"}}, 0},
		"copied, and a third has it, too":  {[]d{begun, {HostUUID: "2"}, {HostUUID: "3"}}, no},
		"copied, and the copy was written": {[]d{begun, {HostUUID: "2", Generation: 1}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, ok := location.Choose(tt.definitions)
			if !ok {
				got = no
			}

			if got != tt.want {
				t.Errorf("chose %d, want %d", got, tt.want)
			}
		})
	}
}

func hasRun(d location.Definition) location.Definition {
	d.Ran = true

	return d
}

func TestNewer_isWhatWasWrittenLater(t *testing.T) {
	t.Parallel()

	got := location.Newer(4, []location.Definition{{Generation: 4}, {Generation: 5}, {}})
	if len(got) != 1 || got[0] != 1 {
		t.Errorf("got %v, want [1]", got)
	}
}
