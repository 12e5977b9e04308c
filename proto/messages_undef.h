/* SPDX-License-Identifier: Apache-2.0 */
/* Ends one reading of messages.def. Included once a reading: no guard. */
#undef MESSAGE
#undef U32
#undef U64
#undef TEXT
#undef UTF8
#undef END_MESSAGE
