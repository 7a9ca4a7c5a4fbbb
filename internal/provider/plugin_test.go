package provider_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

// orphanEnv makes the test binary a provider whose change is over when its standard input ends.
const orphanEnv = "VIRTFLEET_TEST_ORPHAN"

func orphan() {
	provider.EndWithout(func() { fmt.Println("begun") }, func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println("finished")
	})
}

// TestServe_endsWithTerraform: if Terraform is killed alone, the provider completes what it cancels, and ends.
func TestServe_endsWithTerraform(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A shell gives what it runs in the background no standard input, unless it is told to.
	terraform := exec.CommandContext(t.Context(), "sh", "-c", `exec 3<&0; "$0" <&3 & wait`, self)
	terraform.Env = append(os.Environ(), orphanEnv+"=1")
	stdin, err := terraform.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := terraform.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := terraform.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stdout)
	if line, err := said.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("it says %q: %v", line, err)
	}
	if err := terraform.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	// The output ends with the last process that has it: the provider.
	rest, err := io.ReadAll(said)
	if err != nil || string(rest) != "finished\n" {
		t.Errorf("it says %q: %v", rest, err)
	}
	if err := terraform.Wait(); err == nil {
		t.Error("the shell wasn't killed")
	}
}
