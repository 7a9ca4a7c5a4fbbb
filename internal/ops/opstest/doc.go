// Package opstest helps to test the commands: it runs them in process against the lab's hosts, and reads their output.
//
// Only tests may import it.
package opstest
