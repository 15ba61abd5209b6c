/* A module that knows which of the others this processor can run; it is compiled for processors of any age. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "level.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_level", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__level(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "level", instruction_level()) < 0) { Py_DECREF(module); return NULL; }
    return module;
}
