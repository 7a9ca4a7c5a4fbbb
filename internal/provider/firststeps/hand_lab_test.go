package firststeps_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// worksByHand starts the hosts for work by hand, as the README says, and removes them. A developer may have such hosts
// here: these are others, with another directory and number.
func (u *user) worksByHand(t *testing.T) {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(u.lab.Dir, "by-hand")
	own := u.env
	defer func() { u.env = own }()
	// The labs of tests count from below. If another lab has this number, the next one is tried.
	free := func(number int) bool {
		u.env = append(slices.Clone(own), lab.DirEnv+"="+dir, fmt.Sprintf("%s=%d", lab.NetEnv, number))
		said, err := u.tries(t, repository, u.printed("make lab-up"), "")
		if err != nil && !strings.Contains(said, "is in use by") {
			t.Fatalf("make lab-up: %v\n%s", err, said)
		}
		return err == nil
	}
	defer u.prints(t, repository, "make lab-down", "")
	for number := 180 + rand.IntN(50); !free(number); number++ {
		if number == lastNumber {
			t.Fatal("no number is free for a lab by hand")
		}
	}
	login := "ssh -F " + dir + "/ssh/config "
	for _, host := range []string{"kvm1", "kvm2", "kvm3"} {
		if said := u.does(t, repository, login+host+" hostname", ""); strings.TrimSpace(said) != host {
			t.Errorf("the host %s calls itself %q", host, said)
		}
	}
}

// lastNumber is the highest that a lab can have.
const lastNumber = 254
