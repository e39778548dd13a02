// Package must ends a program with 1 where something has failed.
package must

import (
	"fmt"
	"os"
)

// Succeed prints an error and ends the program; without one it does nothing.
func Succeed(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
