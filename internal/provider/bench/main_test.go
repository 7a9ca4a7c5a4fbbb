package bench

import (
	"flag"
	"log"
	"os"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

var (
	full = flag.Bool("full", false, "measure 1,000 VMs on two hosts too")
	// A median of five stands one disturbed run of each side, and of two.
	rounds     = flag.Int("rounds", 5, "how often each plan is made")
	profileDir = flag.String("profile", "", "a directory for CPU profiles of the provider")
)

func TestMain(m *testing.M) {
	// Terraform starts this program in place of the provider where something is to be measured from within.
	if role, ok := roles[os.Getenv(roleEnv)]; ok {
		if err := role(); err != nil {
			log.Fatal(err)
		}
		return
	}
	acctest.Main(m)
}
